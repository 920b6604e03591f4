"""Arrays a piece at a time, by several threads."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.flower import MaxFL
from maxfl.flower.replies import pieces
from maxfl.flower.replies.pieces import in_threads, piece_of, places
from support.flower_nodes import Nodes, make_app, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def test_pieces_are_the_whole_array(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 4)
    for array in (np.arange(10.0), np.asfortranarray(np.arange(10.0).reshape(2, 5))):
        found = np.concatenate([piece_of(array, place) for place in places(array.size)])
        assert found.tolist() == list(range(10))
    assert places(0) == []


def test_a_piece_is_written_where_it_lies():
    array = np.zeros((2, 3))
    piece_of(array, slice(1, 4))[...] = 1
    assert array.tolist() == [[0, 1, 1], [1, 0, 0]]


@pytest.mark.parametrize("cores", [2, 5])
def test_results_have_the_same_bits_on_any_number_of_cores(monkeypatch, cores):
    monkeypatch.setattr(pieces, "PIECE", 1000)
    start = {"w": np.random.default_rng(0).normal(size=(70, 71)).astype(np.float32)}
    found = []
    for number in (1, cores):
        monkeypatch.setattr(pieces.os, "cpu_count", lambda number=number: number)
        apps = [make_app(loss, 2.0, change) for loss, change in ((1, 0.1), (2, -0.3), (3, 0.7))]
        found.append(train(MaxFL(), Nodes(*apps), rounds=2, start=start)[-1][0]["w"])
    np.testing.assert_array_equal(*found)


def test_what_fails_in_a_thread_is_told():
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda number: 1 / number, [1, 0, 2])
