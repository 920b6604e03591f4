"""A run in a folder: kill it, start it again, and it goes on bit for bit.

Run it with:  python examples/resume.py [FOLDER]      stop it by Ctrl-C, and run it again
"""

import sys

import numpy as np

import maxfl

folder = sys.argv[1] if len(sys.argv) > 1 else "runs/resume"
rng = np.random.default_rng(0)
x = rng.normal(size=(2, 50, 60, 8))
y = (x[..., 0] + x[..., 1] > 0) ^ (np.arange(50) % 5 < 2)[:, None]
train, test = (list(zip(x[i], y[i].astype(int), strict=True)) for i in range(2))
simulation = maxfl.Simulation(
    maxfl.Federation.from_clients(train, test, unseen=15),
    maxfl.logistic(),
    maxfl.maxfl_auto(),
    maxfl.Training(rounds=200, local_steps=10, local_lr=0.2, checkpoint_every=10),
    participation=maxfl.decline(start_round=50),
)


def progress(stage, done, total):
    """Say where the run stands."""
    print(f"\r{stage}: {done} of {total}", end="", flush=True)


maxfl.run(simulation, folder, resume=True, progress=progress)
print(f"\nresults: {folder}; look at them with: maxfl report {folder}")
