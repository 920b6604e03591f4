"""The model and the data: a small network in PyTorch, 200 Fashion-MNIST images a client."""

from typing import NamedTuple

import torch
from torch.nn.functional import cross_entropy

from maxfl.flower.example_data import fashion_mnist_share


class Data(NamedTuple):
    """Images as rows of pixels, and their labels."""

    x: torch.Tensor
    y: torch.Tensor


Split = dict[str, Data]
"""A client's data by "train", "judging" and "test"."""


class Net(torch.nn.Sequential):
    """One hidden layer; every client and the server start from the same weights."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def load(client: int, clients: int) -> Split:
    """Load the data of one of the clients."""
    share = fashion_mnist_share(client, clients)
    return {part: Data(torch.from_numpy(data.x), torch.from_numpy(data.y).long())
            for part, data in share.items()}


@torch.no_grad()
def loss(model: Net, data: Data) -> float:
    """Compute the mean cross-entropy."""
    return float(cross_entropy(model(data.x), data.y))


@torch.no_grad()
def accuracy(model: Net, data: Data) -> float:
    """Compute the share of images that are recognised."""
    return float((model(data.x).argmax(1) == data.y).float().mean())


def train(model: Net, data: Data, steps: int, rate: float = 0.02) -> Net:
    """Take a few steps of gradient descent."""
    optimizer = torch.optim.SGD(model.parameters(), rate)
    for _ in range(steps):
        optimizer.zero_grad()
        cross_entropy(model(data.x), data.y).backward()
        optimizer.step()
    return model
