"""The model and the data: replace them by yours.

Softmax regression in NumPy; 200 Fashion-MNIST images a client, which come with maxfl.
"""

import numpy as np
from numpy.typing import NDArray

from maxfl.flower.example_data import Share, fashion_mnist_share

Model = dict[str, NDArray[np.float32]]
Split = dict[str, Share]
"""A client's data by "train", "judging" and "test": images as rows of pixels .x, labels .y.

It trains on the first part and judges models by the second: on images that it has trained on, its
solo model may know every label by heart, and no other could win. The third is for reports alone.
"""


def load(client: int, clients: int) -> Split:
    """Load the data of one of the clients; of four, one contradicts the others."""
    return fashion_mnist_share(client, clients)


def init() -> Model:
    """Return the model before the first round."""
    return {"w": np.zeros((784, 10), np.float32), "b": np.zeros(10, np.float32)}


def probabilities(model: Model, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute the probability of each label for each image."""
    logits = x @ model["w"] + model["b"]
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def loss(model: Model, data: Share) -> float:
    """Compute the mean cross-entropy."""
    likelihood = probabilities(model, data.x)[np.arange(len(data.y)), data.y]
    return float(-np.log(np.maximum(likelihood, 1e-12)).mean())


def accuracy(model: Model, data: Share) -> float:
    """Compute the share of images that are recognised."""
    return float((probabilities(model, data.x).argmax(1) == data.y).mean())


def train(model: Model, data: Share, steps: int, rate: float = 0.01) -> Model:
    """Take a few steps of gradient descent."""
    model = {name: array.copy() for name, array in model.items()}
    for _ in range(steps):
        error = probabilities(model, data.x)
        error[np.arange(len(data.y)), data.y] -= 1
        error /= len(data.y)
        model["w"] -= rate * data.x.T @ error
        model["b"] -= rate * error.sum(0)
    return model
