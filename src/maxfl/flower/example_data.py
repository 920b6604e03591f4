"""Embedded images shared out among the clients of an example: each process loads one share."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.federation import Federation, Samples
from maxfl.core.judging import Judging, with_judging
from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist_12k
from maxfl.data.partition import dirichlet

IMAGES = 200
"""Of each client, all parts together."""


class Share(NamedTuple):
    """One client's images as rows of pixels, float32[n, 784], and their labels, int32[n]."""

    x: NDArray[np.float32]
    y: NDArray[np.int32]


def fashion_mnist_share(client: int, clients: int) -> dict[str, Share]:
    """Return one client's data by "train", "judging" and "test": 90, 30 and 80 images.

    Of Fashion-MNIST; the labels of one client in four contradict the others'.
    """
    federation = _federation(clients)
    input_scaling = federation.input_scaling

    def share_of(samples: Samples) -> Share:
        rows = slice(*samples.offsets[client : client + 2])
        pixels = samples.x[rows].reshape(-1, 784).astype(np.float32)
        return Share((pixels - input_scaling.shift) * input_scaling.scale, samples.y[rows])

    parts = {"train": federation.train, "judging": federation.judged, "test": federation.test}
    return {name: share_of(samples) for name, samples in parts.items()}


@cache
def _federation(clients: int) -> Federation:
    rng = np.random.default_rng(0)
    images = fashion_mnist_12k()
    split = dirichlet(images.y, clients, samples=IMAGES, alpha=5.0, rng=rng)
    federation = assemble(images, split, rng, flipped_fraction=0.25)
    return with_judging(federation, Judging())
