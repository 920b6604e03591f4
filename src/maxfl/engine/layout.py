"""How the work of a run is laid out on the hardware; no result depends on it but by rounding."""

import os
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from maxfl.utils.errors import InputError

SWEEP = "sweep"
CLIENT = "client"


class EvalBatch(NamedTuple):
    """Samples that go through the model at once when losses are measured.

    Attributes:
        everyone: All clients' samples, in one pass: enough for full speed, few enough for a cache.
        client: One client's samples: near its size, or rows of its neighbours are computed in vain.
    """

    everyone: int
    client: int


class Layout(NamedTuple):
    """Devices, and how many things each of them does at once.

    Attributes:
        mesh: Devices along two axes: configurations of a sweep, and clients of a round.
        parallel_configurations: Configurations vectorised on one device; the rest follow in turn.
        parallel_clients: Clients vectorised on one device; the rest follow in turn.
        eval_batch: Samples measured at once.
    """

    mesh: jax.sharding.Mesh
    parallel_configurations: int
    parallel_clients: int
    eval_batch: EvalBatch

    @property
    def is_sequential(self) -> bool:
        """Whether every device does one thing after another, nothing vectorised."""
        return self.parallel_configurations == self.parallel_clients == 1


def use_all_cores() -> None:
    """Let JAX see one device per CPU core, or as many as the variable JAX_NUM_CPU_DEVICES says.

    Call it before JAX computes anything.
    """
    if "JAX_NUM_CPU_DEVICES" in os.environ:  # JAX reads it by itself
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        jax.config.update("jax_num_cpu_devices", cores or 1)
    except RuntimeError as error:
        raise InputError(
            "JAX has computed something already: call use_all_cores() before, or set the variable "
            "JAX_NUM_CPU_DEVICES"
        ) from error


def default_parallelism(devices: list[Any]) -> int:
    """Return most clients or configurations that are vectorised on one of these devices."""
    return 1 if devices[0].platform == "cpu" else 1024


def choose_eval_batch(sizes: ArrayLike, devices: list[Any]) -> EvalBatch:
    """Choose how many samples at once measure clients of these sizes fastest."""
    size, count = np.unique(np.asarray(sizes), return_counts=True)
    # What starting a matrix product costs, in rows of one: an accelerator wants few, large ones.
    everyone, start = (1024, 16) if devices[0].platform == "cpu" else (4096, 1024)

    def cost(rows: int) -> int:
        return int((count * -(-size // rows)).sum()) * (rows + start)

    return EvalBatch(everyone, min((16, 32, 64, 128, 256, 512), key=cost))


def layout(
    configurations: int,
    clients: int,
    eval_batch: EvalBatch,
    *,
    devices: list[Any] | None = None,
    max_parallel: int | None = None,
    most: tuple[int, int] | None = None,
) -> Layout:
    """Choose a layout.

    The devices form a grid, configurations along one side and clients along the other. Sums over
    clients cross the devices of a row in every round, configurations never meet. So, in this order:

    1. the clients of a configuration stay within one process, wherever the devices can be cut so;
    2. the fewest turns: ⌈configurations / rows⌉ · ⌈clients / columns⌉;
    3. the most rows.

    There are never more rows than configurations, and devices are taken process by process.

    On a CPU each core works through its share one after another, which keeps one model's weights
    in its cache and measured faster than batches; an accelerator takes as many as there are.

    Args:
        configurations: Number of configurations of the sweep.
        clients: Number of clients that work at a time.
        eval_batch: Samples measured at once.
        devices: By default all of JAX's.
        max_parallel: Most clients or configurations vectorised on one device.
        most: Configurations and clients that fit into its memory at once.
    """
    devices = jax.devices() if devices is None else devices
    mesh = jax.sharding.Mesh(_grid(configurations, clients, devices), (SWEEP, CLIENT))
    max_parallel = default_parallelism(devices) if max_parallel is None else max_parallel
    most = (configurations, clients) if most is None else most
    return Layout(
        mesh,
        min(max_parallel, configurations, most[0]),
        min(max_parallel, clients, most[1]),
        eval_batch,
    )


def _grid(configurations: int, clients: int, devices: list[Any]) -> Any:
    """Arrange devices [rows, columns]: rows share out configurations, columns clients."""
    ordered = np.array(sorted(devices, key=lambda device: (device.process_index, device.id)))
    owner = np.array([device.process_index for device in ordered])
    n = len(ordered)

    def cost(rows: int) -> tuple[bool, int, int]:
        owners, columns = owner.reshape(rows, -1), n // rows
        crosses = bool((owners != owners[:, :1]).any())
        return crosses, -(-configurations // rows) * -(-clients // columns), -rows

    shapes = [rows for rows in range(1, min(n, configurations) + 1) if n % rows == 0]
    return ordered.reshape(min(shapes, key=cost), -1)
