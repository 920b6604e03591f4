"""Which devices take configurations, and which take clients."""

from types import SimpleNamespace

import pytest

from maxfl.engine.layout import _grid


def grid(configurations, clients, *sizes):
    """Rows of the processes' numbers, for processes of so many devices, given in no order."""
    devices = [
        SimpleNamespace(process_index=p, id=2048 * p + i)
        for p, n in enumerate(sizes)
        for i in range(n)
    ]
    found = _grid(configurations, clients, devices[::-1])
    return [[device.process_index for device in row] for row in found]


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
