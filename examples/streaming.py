"""A federation on disk, of which a cohort at a time is in memory: twenty thousand clients.

Run it with:  python examples/streaming.py [FOLDER]
"""

import sys

import numpy as np

import maxfl

CLIENTS = 20_000
folder = sys.argv[1] if len(sys.argv) > 1 else "runs/federation"


def clients():
    """Yield each client's training and test data."""
    rng = np.random.default_rng(0)
    for k in range(CLIENTS):
        x = rng.normal(size=(20, 8)).astype(np.float32)
        y = ((x[:, 0] + x[:, 1] > 0) ^ (k % 5 < 2)).astype(np.int32)
        yield (x[:14], y[:14]), (x[14:], y[14:])


maxfl.use_all_cores()
maxfl.write_federation(folder, clients(), classes=2)
found = maxfl.stream(
    maxfl.open_federation(folder),
    maxfl.logistic(),
    maxfl.maxfl_auto(),
    maxfl.Training(rounds=20, cohort=200, local_steps=10, local_lr=0.2, evaluate_every=10),
)
appeal = found.history.gm_appeal()[0, -1]
print(f"satisfied: {appeal:.0%} of the clients that were asked to evaluate")
