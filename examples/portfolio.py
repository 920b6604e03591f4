"""Several global models where one cannot please all: three groups that want opposite things.

Run it with:  python examples/portfolio.py
"""

import numpy as np

import maxfl

rng = np.random.default_rng(0)


def client(k):
    """Return a client whose label depends on another pair of features in each of three groups."""
    x = rng.normal(size=(80, 6))
    first = 2 * (k % 3)
    return x, (x[:, first] + x[:, first + 1] > 0).astype(int)


train, test = ([client(k) for k in range(45)] for _ in range(2))
federation = maxfl.Federation.from_clients(train, test, unseen=15)
training = maxfl.Training(rounds=60, cohort=10, local_steps=10, local_lr=0.2)
for models in (1, 2, 3):
    history = maxfl.simulate(
        federation, maxfl.logistic(), maxfl.maxfl_auto(), training,
        portfolio=maxfl.portfolio(models=models), seed=range(3),
    )  # fmt: skip
    appeal = history.gm_appeal("unseen")[:, -1].mean()
    print(f"{models} global model{'s' if models > 1 else ''}: {appeal:.0%} of unseen clients stay")
