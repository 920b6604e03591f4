"""How the work of a run is laid out on the hardware; no result depends on it but by rounding."""

import os
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

SWEEP = "sweep"
CLIENT = "client"


class Rows(NamedTuple):
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
        configurations_at_once: Configurations vectorised on one device; the rest follow in turn.
        clients_at_once: Clients vectorised on one device; the rest follow in turn.
        rows: Samples measured at once.
    """

    mesh: jax.sharding.Mesh
    configurations_at_once: int
    clients_at_once: int
    rows: Rows

    @property
    def one_by_one(self) -> bool:
        """Whether every device does one thing after another, nothing vectorised."""
        return self.configurations_at_once == self.clients_at_once == 1


def use_all_cores() -> None:
    """Let JAX see one device per CPU core. Call it before JAX computes anything."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    jax.config.update("jax_num_cpu_devices", cores or 1)


def most_at_once(devices: list[Any]) -> int:
    """Most clients or configurations that are vectorised on one of these devices."""
    return 1 if devices[0].platform == "cpu" else 1024


def rows_at_once(sizes: ArrayLike, devices: list[Any]) -> Rows:
    """Rows that measure clients of these sizes fastest on these devices."""
    size, count = np.unique(np.asarray(sizes), return_counts=True)
    # What starting a matrix product costs, in rows of one: an accelerator wants few, large ones.
    everyone, start = (1024, 16) if devices[0].platform == "cpu" else (4096, 1024)

    def cost(rows: int) -> int:
        return int((count * -(-size // rows)).sum()) * (rows + start)

    return Rows(everyone, min((16, 32, 64, 128, 256, 512), key=cost))


def layout(
    configurations: int,
    clients: int,
    rows: Rows,
    *,
    devices: list[Any] | None = None,
    at_once: int | None = None,
    most: tuple[int, int] | None = None,
) -> Layout:
    """Choose a layout.

    Configurations are spread over the devices where that leaves no more of them idle than
    spreading the clients does.

    On a CPU each core works through its share one after another, which keeps one model's weights
    in its cache and measured faster than batches; an accelerator takes as many as there are.

    Args:
        configurations: Number of configurations of the sweep.
        clients: Number of clients that work at a time.
        rows: Samples measured at once.
        devices: By default all of JAX's.
        at_once: Most clients or configurations vectorised on one device.
        most: Configurations and clients that fit into its memory at once.
    """
    devices = jax.devices() if devices is None else devices
    n = len(devices)
    by_sweep = configurations >= n and _idle(configurations, n) <= _idle(clients, n)
    shape = (n, 1) if by_sweep else (1, n)
    mesh = jax.sharding.Mesh(np.array(devices).reshape(shape), (SWEEP, CLIENT))
    at_once = most_at_once(devices) if at_once is None else at_once
    most = (configurations, clients) if most is None else most
    return Layout(
        mesh,
        min(at_once, configurations, most[0]),
        min(at_once, clients, most[1]),
        rows,
    )


def _idle(items: int, devices: int) -> float:
    """Share of the devices' turns that have nothing to do."""
    turns = -(-items // devices)
    return 1 - items / (turns * devices)
