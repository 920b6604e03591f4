"""The workloads, made from real images by the engine's readers."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from task import Floats, Samples, Task

from maxfl.data.dataset import Dataset
from maxfl.data.emnist import emnist
from maxfl.data.fashion_mnist import fashion_mnist_12k

Sizes = NDArray[np.int64]


class Workload(NamedTuple):
    """A workload before its arrays are made.

    Attributes:
        title: For people.
        data: Loads the images.
        train: Training samples of each client, int[K].
        test: Test samples of each client, int[K].
        hidden: Units of the dense hidden layers.
        channels: Output channels of the convolutions before them.
        cohort: Clients a round.
        steps: SGD steps of a client.
        batch: Samples a step.
        rate: The clients' learning rate.
        rounds: Rounds of a block.
        blocks: Blocks on the clock.
        evaluated: Whether all clients are evaluated after each round.
    """

    title: str
    data: Callable[[], Dataset]
    train: Sizes
    test: Sizes
    hidden: tuple[int, ...]
    channels: tuple[int, ...] = ()
    cohort: int = 5
    steps: int = 30
    batch: int = 32
    rate: float = 0.05
    rounds: int = 20
    blocks: int = 3
    evaluated: bool = False


def _unequal(clients: int) -> Sizes:
    """Draw log-normal sizes, 10 to 5000 samples."""
    draws = np.random.default_rng(2).lognormal(np.log(300), 1.5, clients)
    return np.clip(draws, 10, 5000).astype(np.int64)


def _emnist() -> Dataset:
    return emnist("byclass", "test")


SIZES = _unequal(100)
MLP = Workload(
    "FMNIST MLP, 5 of 100 clients",
    fashion_mnist_12k, np.full(100, 300), np.full(100, 200), (64, 30),
)  # fmt: skip
WORKLOADS = {
    "mlp": MLP,
    "mlp-evaluated": MLP._replace(
        title="the same, all clients evaluated each round", evaluated=True, rounds=8
    ),
    "many": MLP._replace(
        title="the same MLP, 100 of 1000 clients", train=np.full(1000, 300),
        test=np.full(1000, 10), cohort=100, rounds=3,
    ),
    "cnn": Workload(
        "EMNIST CNN, 10 of 500 clients", _emnist, np.full(500, 60), np.full(500, 2), (128,),
        (32, 64), cohort=10, steps=20, batch=20, rounds=2,
    ),
    "unequal": MLP._replace(
        title="the MLP, 5 of 100 clients of 10 to 5000 samples, all evaluated each round",
        train=SIZES, test=-(-SIZES * 2 // 3), evaluated=True, rounds=8,
    ),
}  # fmt: skip
SIDE = 28


def make(name: str) -> Task:
    """Make a workload's arrays; images are drawn with replacement, for there are too few."""
    workload, rng = WORKLOADS[name], np.random.default_rng(0)
    data = workload.data()
    assert data.input_scaling is not None

    def samples(sizes: Sizes) -> Samples:
        rows = rng.integers(0, len(data.y), sizes.sum())
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return Samples(np.ascontiguousarray(data.x[rows]), data.y[rows], offsets)

    return Task(
        name=name, model="cnn" if workload.channels else "mlp",
        cohort=workload.cohort, steps=workload.steps, batch=workload.batch, rate=workload.rate,
        dropout=0.5, rounds=workload.rounds, blocks=workload.blocks, evaluated=workload.evaluated,
        shift=float(data.input_scaling.shift), scale=float(data.input_scaling.scale),
        train=samples(workload.train), test=samples(workload.test),
        start=draw_start(shapes(workload, data.classes), rng),
    )  # fmt: skip


def shapes(workload: Workload, classes: int) -> list[tuple[int, ...]]:
    """Return shapes of all weights: 3 × 3 convolutions, each pooled 2 × 2, then dense layers."""
    found: list[tuple[int, ...]] = []
    side, inputs = SIDE, 1
    for channels in workload.channels:
        found.append((3, 3, inputs, channels))
        side, inputs = (side - 2) // 2, channels
    width = side * side * inputs
    for units in (*workload.hidden, classes):
        found.append((width, units))
        width = units
    return found


def draw_start(weights: list[tuple[int, ...]], rng: np.random.Generator) -> list[Floats]:
    """Draw weights and biases, uniform in ±1/√inputs."""
    drawn = []
    for shape in weights:
        bound = 1 / np.sqrt(np.prod(shape[:-1]))
        drawn += [rng.uniform(-bound, bound, s).astype(np.float32) for s in (shape, shape[-1:])]
    return drawn
