"""What a peer is given and what it gives back; needs NumPy alone, which every environment has.

A peer is a script, `peer_NAME.py TASK --variant VARIANT --out FILE`. It trains `all_rounds` rounds
of FedAvg (clients weighed by their samples) from the parameters in TASK: a block of `rounds` to get
ready, then `blocks` of them on the clock. It prints one line of JSON, and writes the trained
parameters, and the evaluation of all clients if the task asks for that, to FILE. The runner
measures those parameters for all alike.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
LOSS, ACCURACY = 0, 1


class Samples(NamedTuple):
    """Samples of K clients: x [total, 28, 28], bytes or scaled; y [total]; offsets [K + 1]."""

    x: NDArray[Any]
    y: NDArray[np.int32]
    offsets: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Samples of each client, int[K]."""
        return np.diff(self.offsets)


class Task(NamedTuple):
    """A workload as a peer sees it.

    Attributes:
        name: The workload's name.
        model: "mlp" (dense layers) or "cnn" (see `shapes`).
        cohort: Clients a round, m.
        steps: SGD steps of a client, τ.
        batch: Samples of a step, b.
        rate: η of the clients; the server takes their mean.
        dropout: Share of the units dropped after the hidden layer that has it.
        rounds: Rounds of a block; the clock runs after the first one.
        blocks: Blocks on the clock.
        evaluated: Whether all clients' losses and accuracies are computed after each round.
        shift: Stored bytes become (x − shift) · scale.
        scale: Factor of stored bytes, after the shift.
        train: Training samples.
        test: Held-out samples.
        start: The parameters to begin with: weight and bias of each layer. Dense weights are
            [inputs, outputs]; convolutions [3, 3, inputs, outputs] on [height, width, channels].
    """

    name: str
    model: str
    cohort: int
    steps: int
    batch: int
    rate: float
    dropout: float
    rounds: int
    blocks: int
    evaluated: bool
    shift: float
    scale: float
    train: Samples
    test: Samples
    start: list[Floats]

    @property
    def clients(self) -> int:
        """K."""
        return len(self.train.offsets) - 1

    @property
    def all_rounds(self) -> int:
        """Rounds of all blocks, on the clock and before."""
        return self.rounds * (1 + self.blocks)

    def scale_inputs(self, x: NDArray[Any]) -> Floats:
        """Return the model's inputs, float32[n, 28, 28], of bytes; floats are scaled already."""
        if x.dtype == np.float32:
            return x
        h = x.astype(np.float32)
        h -= np.float32(self.shift)
        h *= np.float32(self.scale)
        return h

    def with_scaled_inputs(self) -> "Task":
        """Return the task with all samples scaled and in memory."""
        train, test = (
            Samples(self.scale_inputs(s.x), np.array(s.y), np.array(s.offsets))
            for s in (self.train, self.test)
        )
        return self._replace(train=train, test=test)


class Outcome(NamedTuple):
    """What a peer did.

    Attributes:
        ms: Milliseconds a round, in each block on the clock.
        params: Trained parameters, laid out as `Task.start`.
        evaluation: The last evaluation, float32[2, 2, K]: training and held-out; loss and accuracy.
        more: Further figures by name.
    """

    ms: list[float]
    params: list[Floats]
    evaluation: Floats | None
    more: dict[str, Any] | None = None


SETTINGS = (
    "name", "model", "cohort", "steps", "batch", "rate", "dropout", "rounds", "blocks", "evaluated",
    "shift", "scale",
)  # fmt: skip


def write(task: Task, folder: Path) -> None:
    """Put a task into a folder, its arrays as files that processes can share by mapping them."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        for name, array in getattr(task, split)._asdict().items():
            np.save(folder / f"{split}-{name}.npy", array)
    np.savez(folder / "start.npz", *task.start)
    settings = {name: getattr(task, name) for name in SETTINGS}
    (folder / "task.json").write_text(json.dumps(settings, indent=1))


def read(folder: Path) -> Task:
    """Return the task of a folder; its samples are mapped, not read."""
    settings = json.loads((folder / "task.json").read_text())
    train, test = (
        Samples(
            *(np.load(folder / f"{split}-{name}.npy", mmap_mode="r") for name in Samples._fields)
        )
        for split in ("train", "test")
    )
    return Task(**settings, train=train, test=test, start=arrays(folder / "start.npz"))


def arrays(path: Path) -> list[Floats]:
    """Read the arrays of a file by np.savez, in their order."""
    with np.load(path) as file:
        return [file[f"arr_{i}"] for i in range(len(file.files))]


def cohorts(task: Task) -> list[NDArray[np.int64]]:
    """Draw the clients of each round, int[m], for peers that take them as given."""
    rng = np.random.default_rng(1)
    return [rng.choice(task.clients, task.cohort, replace=False) for _ in range(task.all_rounds)]


def timed(task: Task, one_round: Callable[[NDArray[np.int64]], None]) -> list[float]:
    """Run all rounds of a task, and return milliseconds a round of each block on the clock."""
    ends = [time.perf_counter()]
    for cohort in cohorts(task):
        one_round(cohort)
        ends.append(time.perf_counter())
    return each_block(task, ends)


def each_block(task: Task, ends: list[float]) -> list[float]:
    """Return milliseconds a round of each block on the clock, from when rounds ended, in seconds.

    The first number is when the first round began.
    """
    return [1000 * float(ms) for ms in np.diff(ends[:: task.rounds])[1:] / task.rounds]


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main(
    peer: str, variants: tuple[str, ...], run: Callable[[Task, str, str], Outcome | None],
    versions: dict[str, str],
) -> None:  # fmt: skip
    """Run a peer's command; `run(task, variant, device)` gives nothing in helping processes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task", type=Path)
    parser.add_argument("--variant", choices=variants, default=variants[0])
    parser.add_argument("--out", type=Path, help="for the trained parameters")
    parser.add_argument("--device", default="cpu", help="of PyTorch")
    arguments = parser.parse_args()
    task = read(arguments.task)
    outcome = run(task, arguments.variant, arguments.device)
    if outcome is None:
        return
    if arguments.out:
        more = {} if outcome.evaluation is None else {"evaluation": outcome.evaluation}
        np.savez(arguments.out, *outcome.params, **more)
    line = {
        "peer": peer, "task": task.name, "variant": arguments.variant, "device": arguments.device,
        "ms": [round(value, 3) for value in outcome.ms], "versions": versions,
    }  # fmt: skip
    print(json.dumps(line | (outcome.more or {})), flush=True)
