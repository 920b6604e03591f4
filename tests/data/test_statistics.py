"""How much each client has of what, counted by hand."""

import csv

import numpy as np
import pytest

from maxfl.core.federation import Federation
from maxfl.core.judging import Judging, with_judging
from maxfl.data.statistics import federation_stats, write_clients


@pytest.fixture
def stats():
    """Two clients: three labels in equal parts, and one label."""
    labels = [([0, 1], [2]), ([1, 1, 1], [1])]
    pairs = [[(np.zeros((len(y), 2), np.float32), np.array(y)) for y in both] for both in labels]
    train, test = zip(*pairs, strict=True)
    federation = Federation.from_clients(train, test, unseen=1)
    return federation_stats(federation, np.array([True, False]))


def test_samples_are_counted(stats):
    np.testing.assert_array_equal(stats.counts, [[1, 1, 1], [0, 4, 0]])
    np.testing.assert_array_equal(stats.train_sizes, [2, 3])
    np.testing.assert_array_equal(stats.test_sizes, [1, 1])
    np.testing.assert_array_equal(stats.is_seen, [True, False])
    np.testing.assert_allclose(stats.effective_labels, [3, 1])


def test_samples_that_clients_judge_by_are_counted_once():
    """The second client is too small to hold any out: it judges by its training data."""
    pairs = [(np.zeros((n, 2), np.float32), np.arange(n) % 2) for n in (8, 3)]
    federation = Federation.from_clients(pairs, pairs)
    stats = federation_stats(with_judging(federation, Judging()))
    assert stats.train_sizes.tolist() == [6, 3]
    assert stats.judging_sizes.tolist() == [2, 0]
    np.testing.assert_array_equal(stats.counts, federation_stats(federation).counts)
    assert "1 of 2 clients have too few samples" in stats.notes[0]


def test_clients_are_written(stats, tmp_path):
    write_clients(stats, tmp_path / "clients.csv")
    with (tmp_path / "clients.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["byzantine"] for row in rows] == ["1", "0"]
    assert rows[1] | {"label 1": "4", "train_samples": "3"} == rows[1]
