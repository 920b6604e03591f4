"""Client states on disk: rows are found again, and never overwritten too early."""

import numpy as np
import pytest

from maxfl.engine.streaming.client_state_file import NO_ROWS, ClientStateFile
from maxfl.utils.errors import InputError


def states_of(*numbers):
    """Return client states that hold these numbers."""
    return {"a": np.repeat(np.float32(numbers)[:, None], 3, 1), "b": np.int32(numbers)}


def test_clients_keep_what_they_states_of(tmp_path):
    like = {"a": np.zeros(3, np.float32), "b": np.zeros((), np.int32)}
    fresh = {"a": np.ones(3, np.float32), "b": np.int32(7)}
    store = ClientStateFile(tmp_path / "rows", like, 10)
    store.restore(NO_ROWS)
    assert store.read(np.array([4, 9]), fresh)["b"].tolist() == [7, 7]
    store.write(np.array([9, 4]), states_of(1, 2))
    store.write(np.array([4, 0]), states_of(3, 4))
    found = store.read(np.array([0, 4, 9, 1]), fresh)
    assert found["b"].tolist() == [4, 3, 1, 7]
    assert found["a"].tolist() == [[4] * 3, [3] * 3, [1] * 3, [1] * 3]
    store.close()


def test_rows_of_a_checkpoint_are_not_overwritten(tmp_path):
    like, everyone = states_of(0), np.arange(3)
    like = {"a": like["a"][0], "b": like["b"][0]}
    store = ClientStateFile(tmp_path / "rows", like, 3)
    store.restore(NO_ROWS)
    store.write(everyone, states_of(1, 2, 3))
    rows = store.save()
    store.saved()
    store.write(everyone, states_of(4, 5, 6))  # and then the process is killed
    store.close()
    again = ClientStateFile(tmp_path / "rows", like, 3)
    again.restore(rows)
    assert again.read(everyone, like)["b"].tolist() == [1, 2, 3]
    for n in range(10):  # rows that no checkpoint names are used again
        again.write(everyone, states_of(n, n, n))
        rows = again.save()
        again.saved()
    assert again.rows == 6
    assert again.read(everyone, like)["b"].tolist() == [9, 9, 9]
    path = tmp_path / "rows"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(InputError, match="damaged row, of client"):
        again.read(everyone, like)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="0 bytes, but 48 belong there"):
        again.restore(rows)
    again.close()


def test_a_link_in_place_of_the_file_is_refused(tmp_path):
    mine = tmp_path / "mine"
    mine.write_bytes(b"keep me")
    (tmp_path / "states").symlink_to(mine)
    with pytest.raises(InputError, match="is a link, and what it points to would be overwritten"):
        ClientStateFile(tmp_path / "states", np.zeros(3, np.float32), 4)
    assert mine.read_bytes() == b"keep me"
