"""A requirement of one's own: large clients want to beat their solo model by a tenth.

Run it with:  python examples/own_requirement.py
"""

import numpy as np

import maxfl

rng = np.random.default_rng(0)


def client(k):
    """Return the samples of a client: 20 to 200."""
    x = rng.normal(size=(rng.integers(20, 200), 8))
    return x, ((x[:, 0] + x[:, 1] > 0) ^ (k % 4 == 0)).astype(int)


def demanding(federation, solo):
    """Return what each client's loss has to be below."""
    sizes = np.diff(federation.train.offsets)
    return np.where(sizes > 100, 0.9, 1.0) * solo.judging_loss


train, test = ([client(k) for k in range(40)] for _ in range(2))
history = maxfl.simulate(
    maxfl.Federation.from_clients(train, test),
    maxfl.logistic(),
    maxfl.maxfl_auto(),
    maxfl.Training(rounds=40, local_steps=10, local_lr=0.2),
    requirement=maxfl.custom(demanding),
)
print(f"satisfied after 40 rounds: {history.gm_appeal()[0, -1]:.0%} of the clients")
