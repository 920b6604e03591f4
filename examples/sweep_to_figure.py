"""From a sweep to a figure: GM-Appeal over rounds for four temperatures, three seeds each.

All twelve configurations are one compiled program. Run it with:

    python examples/sweep_to_figure.py [FIGURE.png]
"""

import sys

import numpy as np

import maxfl

rng = np.random.default_rng(0)
x = rng.normal(size=(2, 50, 60, 8))
y = (x[..., 0] + x[..., 1] > 0) ^ (np.arange(50) % 5 < 2)[:, None]
train, test = (list(zip(x[i], y[i].astype(int), strict=True)) for i in range(2))
temperatures, seeds = np.meshgrid([0.1, 0.3, 1.0, 3.0], [0, 1, 2], indexing="ij")
history = maxfl.simulate(
    maxfl.Federation.from_clients(train, test, unseen=15),
    maxfl.logistic(),
    maxfl.maxfl(temperature=temperatures.ravel()),
    maxfl.Training(rounds=60, local_steps=10, local_lr=0.2, evaluate_every=5),
    seed=seeds.ravel(),
)
history.plot().savefig(sys.argv[1] if len(sys.argv) > 1 else "temperatures.png", dpi=150)
table = history.gm_appeal("unseen")[:, -1].reshape(temperatures.shape).mean(1)
for temperature, appeal in zip(temperatures[:, 0], table, strict=True):
    print(f"T = {temperature:3.1f}: {appeal:.2f} of unseen clients")
