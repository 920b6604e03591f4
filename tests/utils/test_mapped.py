"""Arrays in files are read piece by piece."""

import numpy as np

from maxfl.utils import mapped
from maxfl.utils.mapped import value_range


def test_the_range_is_that_of_all_pieces_of_all_arrays(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "PIECE", 3)
    there = np.memmap(tmp_path / "numbers", np.int32, "w+", shape=(4, 2))
    there[:] = np.arange(8).reshape(4, 2)
    assert value_range([there, np.array([-5, 3])]) == (-5, 7)
    assert value_range([there], without=7) == (0, 6)
    assert value_range([np.array([[7, 7]])], without=7) == (0, 0)
