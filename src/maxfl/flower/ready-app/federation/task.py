"""The model and the data: what to replace by your own.

Softmax regression in NumPy; 40 Fashion-MNIST images a client, which come with maxfl.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist_12k
from maxfl.data.partition import dirichlet
from maxfl.federation import Federation, Samples

Model = dict[str, NDArray[np.float32]]


class Data(NamedTuple):
    """Images as rows of pixels, and their labels."""

    x: NDArray[np.float32]
    y: NDArray[np.int32]


Split = dict[str, Data]
"""By "train" and "test"."""


@cache
def everybody(clients: int) -> Federation:
    """All clients' data, of which a node uses its own; one client in four contradicts the rest."""
    rng = np.random.default_rng(0)
    images = fashion_mnist_12k()
    split = dirichlet(images.y, clients, samples=40, alpha=5.0, rng=rng)
    return assemble(images, split, rng, flipped=0.25)


def load(client: int, clients: int) -> Split:
    """The data of one of the clients."""
    federation = everybody(clients)

    def own(samples: Samples) -> Data:
        rows = slice(*samples.offsets[client : client + 2])
        pixels = samples.x[rows].reshape(-1, 784).astype(np.float32)
        scaled = (pixels - federation.decoding.shift) * federation.decoding.scale
        return Data(scaled, samples.y[rows])

    return {"train": own(federation.train), "test": own(federation.test)}


def init() -> Model:
    """The model before the first round."""
    return {"w": np.zeros((784, 10), np.float32), "b": np.zeros(10, np.float32)}


def probabilities(model: Model, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of each label for each image."""
    logits = x @ model["w"] + model["b"]
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def loss(model: Model, data: Data) -> float:
    """Mean cross-entropy."""
    own = probabilities(model, data.x)[np.arange(len(data.y)), data.y]
    return float(-np.log(np.maximum(own, 1e-12)).mean())


def accuracy(model: Model, data: Data) -> float:
    """Share of images that are recognised."""
    return float((probabilities(model, data.x).argmax(1) == data.y).mean())


def train(model: Model, data: Data, steps: int, rate: float = 0.01) -> Model:
    """A few steps of gradient descent."""
    model = {name: array.copy() for name, array in model.items()}
    for _ in range(steps):
        error = probabilities(model, data.x)
        error[np.arange(len(data.y)), data.y] -= 1
        error /= len(data.y)
        model["w"] -= rate * data.x.T @ error
        model["b"] -= rate * error.sum(0)
    return model
