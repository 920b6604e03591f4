"""MaxFL beside FedAvg on clients of which two in five contradict the others.

Run it with:  python examples/quickstart.py       (half a minute on two cores)
"""

import numpy as np

import maxfl

rng = np.random.default_rng(0)


def client(k):
    """Return a client's samples x [50, 8] and labels y [50]."""
    x = rng.normal(size=(50, 8))
    return x, ((x[:, 0] + x[:, 1] > 0) ^ (k % 5 < 2)).astype(int)


train, test = ([client(k) for k in range(60)] for _ in range(2))
federation = maxfl.Federation.from_clients(train, test, unseen=20)
training = maxfl.Training(rounds=60, local_steps=10, local_lr=0.2)
for method in (maxfl.fedavg(), maxfl.maxfl_auto()):
    history = maxfl.simulate(federation, maxfl.logistic(), method, training, seed=range(5))
    appeal = history.gm_appeal("unseen")[:, -1]
    print(f"{method.name:10}  GM-Appeal of unseen clients: {appeal.mean():.2f}")
