"""Embedded images shared out among the clients of an example: each process loads one share."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.federation import Federation, Samples
from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist_12k
from maxfl.data.partition import dirichlet


class Share(NamedTuple):
    """One client's images as rows of pixels, float32[n, 784], and their labels, int32[n]."""

    x: NDArray[np.float32]
    y: NDArray[np.int32]


def fashion_mnist_share(client: int, clients: int) -> dict[str, Share]:
    """Return training and test data of one of some clients, 40 Fashion-MNIST images together.

    The labels of one client in four contradict the others'.
    """
    federation = _federation(clients)
    input_scaling = federation.input_scaling

    def share_of(samples: Samples) -> Share:
        rows = slice(*samples.offsets[client : client + 2])
        pixels = samples.x[rows].reshape(-1, 784).astype(np.float32)
        return Share((pixels - input_scaling.shift) * input_scaling.scale, samples.y[rows])

    return {"train": share_of(federation.train), "test": share_of(federation.test)}


@cache
def _federation(clients: int) -> Federation:
    rng = np.random.default_rng(0)
    images = fashion_mnist_12k()
    split = dirichlet(images.y, clients, samples=40, alpha=5.0, rng=rng)
    return assemble(images, split, rng, flipped_fraction=0.25)
