"""The model and the data: a small network in PyTorch, 40 Fashion-MNIST images a client."""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist_12k
from maxfl.data.partition import dirichlet
from maxfl.federation import Federation, Samples


class Data(NamedTuple):
    """Images as rows of pixels, and their labels."""

    x: torch.Tensor
    y: torch.Tensor


Split = dict[str, Data]


class Net(torch.nn.Sequential):
    """One hidden layer; every client and the server start from the same weights."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


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
        return Data(torch.from_numpy(scaled), torch.from_numpy(samples.y[rows]).long())

    return {"train": own(federation.train), "test": own(federation.test)}


@torch.no_grad()
def loss(model: Net, data: Data) -> float:
    """Mean cross-entropy."""
    return float(cross_entropy(model(data.x), data.y))


@torch.no_grad()
def accuracy(model: Net, data: Data) -> float:
    """Share of images that are recognised."""
    return float((model(data.x).argmax(1) == data.y).float().mean())


def train(model: Net, data: Data, steps: int, rate: float = 0.02) -> Net:
    """A few steps of gradient descent."""
    optimiser = torch.optim.SGD(model.parameters(), rate)
    for _ in range(steps):
        optimiser.zero_grad()
        cross_entropy(model(data.x), data.y).backward()
        optimiser.step()
    return model
