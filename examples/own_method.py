"""A method of one's own: clients count by a power p of their loss. p = 0 is FedAvg.

Run it with:  python examples/own_method.py
"""

from typing import Any, NamedTuple

import numpy as np

import maxfl
from maxfl.algorithms.fedavg import BASE


class HParams(NamedTuple):
    """Traced, so that a sweep over p is one program."""

    power: Any = 1.0


def weight(hparams, server, client):
    """Return q_k = F_k(w)^p."""
    return client.loss**hparams.power


def loss_weighted(power=1.0):
    """Return the method."""
    return BASE._replace(name="loss-weighted", hparams=HParams(power), weight=weight)


rng = np.random.default_rng(0)
x = rng.normal(size=(2, 40, 50, 8))
y = (x[..., 0] + x[..., 1] > 0) ^ (np.arange(40) % 4 == 0)[:, None]
train, test = (list(zip(x[i], y[i].astype(int), strict=True)) for i in range(2))
powers = [0.0, 1.0, 2.0]
history = maxfl.simulate(
    maxfl.Federation.from_clients(train, test),
    maxfl.logistic(),
    loss_weighted(powers),
    maxfl.Training(rounds=40, local_steps=10, local_lr=0.2),
)
for power, worst in zip(powers, history.evaluation.test_loss[:, -1].max(-1), strict=True):
    print(f"p = {power:.0f}: the worst-off client has a loss of {worst:.2f}")
