"""Devices of configurations and of clients; samples that are measured at once."""

from dataclasses import dataclass

import jax
import pytest

import maxfl
from maxfl.engine.layout import EvalBatch, choose_eval_batch, layout


@dataclass(frozen=True)
class Device:
    """What a layout knows of a device."""

    process_index: int
    id: int


def grid(configurations, clients, *sizes):
    """Return rows of the processes' numbers, for processes of so many devices, in no order."""
    devices = [
        Device(process_index=p, id=2048 * p + i) for p, n in enumerate(sizes) for i in range(n)
    ]
    found = layout(configurations, clients, EvalBatch(1, 1), devices=devices[::-1], max_parallel=1)
    return [[device.process_index for device in row] for row in found.mesh.devices]


@pytest.mark.parametrize(
    ("configurations", "clients", "sizes", "rows"),
    [
        # One process. Configurations first: they have nothing to tell each other.
        (4, 5, [2], [[0], [0]]),
        (1, 5, [2], [[0, 0]]),
        # Two rows take 2 · 5 turns, one row 3 · 3.
        (3, 5, [2], [[0, 0]]),
        (3, 10, [2], [[0, 0]]),
        (2, 5, [4], [[0, 0], [0, 0]]),
        (1, 1, [2], [[0, 0]]),
        # Several. A row lies in one process, where there are as many configurations as processes.
        (2, 5, [2, 2], [[0, 0], [1, 1]]),
        (3, 5, [1, 1], [[0], [1]]),
        (8, 5, [2, 2], [[0], [0], [1], [1]]),
        (2, 8, [4, 4], [[0] * 4, [1] * 4]),
        # Otherwise clients are spread over all.
        (1, 5, [2, 2], [[0, 0, 1, 1]]),
        (3, 8, [1, 1, 1, 1], [[0, 1, 2, 3]]),
        # Unequal processes.
        (4, 5, [2, 4], [[0, 0], [1, 1], [1, 1]]),
        (6, 5, [1, 2], [[0], [1], [1]]),
        (2, 5, [1, 2], [[0, 1, 1]]),
    ],
)
def test_the_grid_of_devices(configurations, clients, sizes, rows):
    assert grid(configurations, clients, *sizes) == rows


def test_there_are_never_more_rows_than_configurations():
    for configurations in range(1, 7):
        for sizes in ([6], [3, 3], [2, 2, 2], [1, 5]):
            assert len(grid(configurations, 4, *sizes)) <= configurations


@pytest.mark.parametrize(
    ("sizes", "rows"), [([12] * 9, 16), ([17] * 9, 32), ([300, 300], 64), ([5000] * 3, 512),
                        ([12] * 99 + [5000], 32), ([10] * 9 + [5000], 64)],
)  # fmt: skip
def test_small_clients_are_measured_in_small_products(sizes, rows):
    assert choose_eval_batch(sizes, jax.devices()).client == rows


def test_all_cores_must_be_asked_for_first(monkeypatch):
    devices = len(jax.devices())
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(devices + 1), raising=False)
    with pytest.raises(maxfl.InputError, match="JAX has computed something already"):
        maxfl.use_all_cores()
