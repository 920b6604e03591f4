"""Modules as users write them: a method, a model, a loss and data of their own."""

METHOD = '''
from typing import Any, NamedTuple

import maxfl


class HParams(NamedTuple):
    power: Any


def weight(hparams, server, client):
    return client.loss**hparams.power


def lossweighted(power=1.0):
    """Return a method in which clients count by a power of their loss.

    Args:
        power: p; 0 is
            FedAvg.
    """
    if power < 0:
        raise ValueError("a negative power")
    return maxfl.fedavg()._replace(name="lossweighted", hparams=HParams(power), weight=weight)


def baked(power=1.0):
    """A method whose function holds its number."""
    return maxfl.fedavg()._replace(weight=lambda hparams, server, client: client.loss**power)


def idle(power=1.0):
    return maxfl.fedavg()


def needy(power):
    return lossweighted(power)


def wordy(power=1.0, mode="fast"):
    return lossweighted(power)


def nothing():
    return 3


METHOD = maxfl.fedavg()
'''
MODEL = '''
import jax
import jax.numpy as jnp

import maxfl


def dense(inputs, classes, width=4, deeper=[3]):
    """A dense network."""
    return maxfl.mlp(inputs, (width, *deeper), classes, dropout=0.0)


def with_loss(shape, classes, loss):
    """A layer, trained on any loss."""
    return maxfl.logistic(shape[0], classes, loss=loss)


def of_data(federation):
    """A layer that looks at the data."""
    return maxfl.logistic(federation.train.x.shape[1], federation.classes)


def focal(outputs, y):
    """Focal loss."""
    p = jax.nn.log_softmax(outputs)[jnp.arange(len(y)), y]
    return -((1 - jnp.exp(p)) ** 2) * p


def taken(inputs, classes, padding=0):
    return dense(inputs, classes)


def broken():
    raise RuntimeError("out of ideas")


def number():
    return 3
'''
DATA = '''
import numpy as np

import maxfl
from maxfl.data.dataset import Dataset


def federation(seed, clients=6, features=5):
    """Clients with two classes each."""
    rng = np.random.default_rng(seed)

    def client(samples):
        y = rng.integers(0, 2, samples)
        return rng.normal(y[:, None], 1, (samples, features)).astype(np.float32), y

    each = range(clients)
    train, test = [client(8) for _ in each], [client(4) for _ in each]
    return maxfl.Federation.from_clients(train, test, unseen=1)


def dataset(samples=60, names=False, owned=True):
    """Samples of owners."""
    y = np.arange(samples) % 3
    owner = np.arange(samples) % 5 if owned else None
    x = np.ones((samples, 2), np.float32)
    return Dataset("three classes", x, y, ("only",) if names else (), owner=owner)


def nothing():
    return [1, 2]
'''
