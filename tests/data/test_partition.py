"""Partitions: each ends, uses no sample twice, and is what it says."""

from time import perf_counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import maxfl
from maxfl.data import partition

LABELS = np.repeat(np.arange(6), 50).astype(np.int32)


def rng(seed=0):
    return np.random.default_rng(seed)


@settings(max_examples=60, deadline=None)
@given(
    clients=st.integers(1, 20),
    samples=st.integers(2, 15),
    alpha=st.sampled_from([0.001, 0.01, 0.5, 100.0]),
    seed=st.integers(0, 1000),
)
def test_dirichlet_uses_each_sample_once_and_gives_equal_sizes(clients, samples, alpha, seed):
    parts = partition.dirichlet(LABELS, clients, samples, alpha, rng(seed)).parts
    assert [len(p) for p in parts] == [samples] * clients
    used = np.concatenate(parts)
    assert len(np.unique(used)) == len(used)
    again = partition.dirichlet(LABELS, clients, samples, alpha, rng(seed)).parts
    np.testing.assert_array_equal(np.stack(parts), np.stack(again))


def test_dirichlet_ends_when_it_takes_everything():
    parts, _, (note,) = partition.dirichlet(LABELS, 30, 10, 0.001, rng())
    assert "of other labels than their clients would have drawn" in note
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(300))


def test_small_alpha_is_skewed_and_large_alpha_is_even():
    y = np.repeat(np.arange(10), 2000).astype(np.int32)

    def concentration(alpha):
        """Mean of Σ p², whose expectation is (1 + α)/(1 + 10α)."""
        parts = partition.dirichlet(y, 100, 60, alpha, rng(1)).parts
        shares = [np.bincount(y[p], minlength=10) / 60 for p in parts]
        return np.mean([(s**2).sum() for s in shares])

    for alpha in (0.1, 0.5, 10.0):
        # A sample of 60 adds (1 − Σp²)/60 to the expectation.
        expected = (1 + alpha) / (1 + 10 * alpha)
        assert concentration(alpha) == pytest.approx(expected + (1 - expected) / 60, rel=0.12)


def test_clusters_give_each_client_the_labels_of_one_group():
    parts = partition.clusters(LABELS, 9, 20, 3, rng()).parts
    groups = [set(LABELS[p] // 2) for p in parts]
    assert all(len(g) == 1 for g in groups)
    assert sorted(g.pop() for g in groups) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert len(np.unique(np.concatenate(parts))) == 180


def test_by_owner_keeps_owners_together_and_in_order():
    owner = np.array(["g", "c", "g", "c", "c", "i", "a"])
    parts, names, notes = partition.by_owner(owner, 0, 1, rng())
    assert [p.tolist() for p in parts] == [[0, 2], [1, 3, 4], [5], [6]]
    assert names.tolist() == ["g", "c", "i", "a"]
    assert notes == ()
    parts, names, notes = partition.by_owner(owner, 0, 2, rng())
    assert names.tolist() == ["g", "c"]
    assert notes == ("2 clients with fewer than 2 samples are left out",)


def test_unseen_owners_are_drawn_at_random_and_come_last():
    owner = np.arange(10).repeat(2)
    unseen = set()
    for seed in range(20):
        parts, names, _ = partition.by_owner(owner, 3, 2, rng(seed))
        assert sorted(names[:7]) == names[:7].tolist()
        assert all((owner[p] == name).all() for p, name in zip(parts, names, strict=True))
        unseen |= set(names[7:].tolist())
    assert len(unseen) == 10
    with pytest.raises(maxfl.InputError, match="there are 10 clients with at least 2 samples"):
        partition.by_owner(owner, 10, 2, rng())


@settings(max_examples=60, deadline=None)
@given(
    clients=st.integers(1, 40),
    smallest=st.integers(2, 7),
    alpha=st.sampled_from([0.001, 0.1, 1.0, 100.0]),
    seed=st.integers(0, 1000),
)
def test_unequal_dirichlet_uses_everything_and_leaves_nobody_short(clients, smallest, alpha, seed):
    parts = partition.dirichlet_unequal(LABELS, clients, alpha, smallest, rng(seed)).parts
    assert len(parts) == clients
    assert min(map(len, parts)) >= smallest
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(300))
    again = partition.dirichlet_unequal(LABELS, clients, alpha, smallest, rng(seed)).parts
    np.testing.assert_array_equal(np.concatenate(parts), np.concatenate(again))


def test_unequal_dirichlet_moves_no_more_than_it_must():
    y = np.repeat(np.arange(10), 1000).astype(np.int32)
    split = partition.dirichlet_unequal(y, 20, 100.0, 2, rng())
    assert split.notes == ()
    skewed = partition.dirichlet_unequal(y, 100, 0.01, 5, rng())
    assert "were moved to clients below 5" in skewed.notes[0]
    sizes = np.array([len(p) for p in skewed.parts])
    assert sizes.max() > 20 * np.median(sizes)
    few = [len(np.unique(y[p])) for p in skewed.parts if len(p) > 50]
    assert np.mean(few) < 3


@settings(max_examples=40, deadline=None)
@given(clients=st.integers(1, 25), count=st.integers(1, 3), seed=st.integers(0, 1000))
@example(clients=25, count=1, seed=0)
@example(clients=25, count=3, seed=0)
def test_shards_give_each_client_few_labels(clients, count, seed):
    parts = partition.shards(LABELS, clients, 12, count, rng(seed)).parts
    assert [len(p) for p in parts] == [12] * clients
    assert len(np.unique(np.concatenate(parts))) == 12 * clients
    if clients == 25:  # 12 samples a client use all labels evenly: a shard spans two at most
        assert max(len(np.unique(LABELS[p])) for p in parts) <= 2 * count


def test_every_partition_is_fast_and_ends_at_the_smallest_alpha():
    y = np.repeat(np.arange(10), 7000).astype(np.int32)
    owner = np.arange(70_000) % 10_000
    for make in (
        *(lambda a=a: partition.dirichlet(y, 10_000, 7, a, rng()) for a in (0.001, 0.1)),
        *(lambda a=a: partition.dirichlet_unequal(y, 10_000, a, 2, rng()) for a in (0.001, 0.1)),
        lambda: partition.clusters(y, 10_000, 7, 5, rng()),
        lambda: partition.shards(y, 10_000, 7, 7, rng()),
        lambda: partition.iid(y, 10_000, 7, rng()),
        lambda: partition.by_owner(owner, 5_000, 2, rng()),
    ):
        began = perf_counter()
        parts = make().parts
        assert perf_counter() - began < 2
        assert len(parts) == 10_000
        assert len(np.unique(np.concatenate(parts))) == 70_000


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: partition.dirichlet(LABELS, 31, 10, 0.5, rng()), "need 310 samples, but .* 300"),
        (lambda: partition.dirichlet(LABELS, 3, 10, 0.0, rng()), "^alpha = 0"),
        (lambda: partition.clusters(LABELS, 4, 10, 4, rng()), "evenly: choose one of 1, 2, 3, 6"),
        (lambda: partition.clusters(LABELS[:280], 3, 90, 3, rng()), "labels 4 to 5, but .* 80"),
        (lambda: partition.iid(LABELS, 3, 1, rng()), "^samples = 1"),
        (lambda: partition.shards(LABELS, 3, 10, 3, rng()), "3 shards.* one of 1, 2, 5, 10"),
        (lambda: partition.dirichlet_unequal(LABELS, 151, 1.0, 2, rng()), "302.* or min_samples"),
    ],
)  # fmt: skip
def test_what_can_not_be_split_is_refused(make, words):
    with pytest.raises(maxfl.InputError, match=words):
        make()


def test_labels_and_seeds_may_be_given_as_people_have_them():
    words = np.array(["cat", "dog", "eel", "fox", "gnu", "hen"])[LABELS]
    wanted = partition.dirichlet(LABELS, 5, 20, 0.5, rng(3)).parts
    for labels in (LABELS.tolist(), words, words.astype(object), LABELS - 10, LABELS > 2):
        found = partition.dirichlet(labels, 5, 20, 0.5, 3).parts
        assert [len(rows) for rows in found] == [20] * 5
        if labels is not words and np.asarray(labels).dtype == bool:
            continue
        np.testing.assert_array_equal(np.stack(found), np.stack(wanted))
    assert len(maxfl.partition.iid(np.zeros((50, 2)), 5, 10).parts) == 5
    assert maxfl.partition.by_owner(["b", "a", "b", "a"]).names.tolist() == ["b", "a"]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (LABELS * 0.5, "labels are floats, and only classes can be skewed"),
        (LABELS[None], r"labels are int32\[1, 300\]: expected one number or text for each sample"),
        ([], "expected one number or text for each"),
        ([None, "a"], "expected one number or text for each"),
    ],
)
def test_labels_that_can_not_be_skewed(labels, words):
    for split in (
        lambda y: partition.dirichlet(y, 2, 2, 0.5),
        lambda y: partition.dirichlet_unequal(y, 2, 0.5),
        lambda y: partition.clusters(y, 2, 2, 1),
        lambda y: partition.shards(y, 2, 2, 1),
    ):
        with pytest.raises(maxfl.InputError, match=words):
            split(labels)


def test_classes_are_the_labels_that_occur_unless_their_number_is_given():
    wanted = np.stack(partition.dirichlet(LABELS, 5, 20, 0.5, 3).parts)
    for labels in (LABELS + 1, LABELS.astype(np.int64) * 10**9):
        np.testing.assert_array_equal(partition.dirichlet(labels, 5, 20, 0.5, 3).parts, wanted)
    assert len(partition.clusters(LABELS + 1, 9, 20, 3).parts) == 9
    # A run's classes are those below the largest that occurs, and each is drawn.
    kept = partition.dirichlet(LABELS + 1, 5, 20, 0.5, 3, classes=7).parts
    assert not np.array_equal(kept, wanted)
    with pytest.raises(maxfl.InputError, match="do not divide the 7 labels"):
        partition.clusters(LABELS + 1, 9, 20, 3, classes=7)
    with pytest.raises(maxfl.InputError, match="labels are int32 from 0 to 5, but classes = 5"):
        partition.dirichlet_unequal(LABELS, 5, 0.5, classes=5)


def test_owners_with_too_few_samples_are_counted():
    with pytest.raises(
        maxfl.InputError, match="none of 2 clients has 5 samples, the largest has 3"
    ):
        partition.by_owner([1, 1, 1, 2], min_samples=5)


@pytest.mark.parametrize("seed", [None, -1, True, "0", 1.5])
def test_seeds_are_whole_numbers(seed):
    with pytest.raises(maxfl.InputError, match=r"rng = .*: expected a seed, a whole number from 0"):
        partition.iid(LABELS, 2, 2, seed)


def test_samples_are_split_into_training_and_test_data():
    split = partition.shards(LABELS, 6, 10, 2, 0)
    train, test = partition.train_test_split(split, 0.8, 1)
    assert [len(rows) for rows in train] == [8] * 6
    for rows, other, part in zip(train, test, split.parts, strict=True):
        np.testing.assert_array_equal(np.sort(np.append(rows, other)), np.sort(part))
    again = partition.train_test_split(split.parts, 0.8, rng(1))
    np.testing.assert_array_equal(np.stack(train), np.stack(again.train))
    given = partition.train_test_split(split, is_test=np.arange(300) % 2 == 0)
    assert all((rows % 2 == 1).all() for rows in given.train)
    with pytest.raises(maxfl.InputError, match=r"client 1 has 1 sample.s. where two are needed"):
        partition.train_test_split([np.arange(2), np.arange(1)])
    with pytest.raises(maxfl.InputError, match="client 0 has no test samples in the data's own"):
        partition.train_test_split(split, is_test=np.zeros(300, bool))
    with pytest.raises(maxfl.InputError, match="train_fraction = 1: expected"):
        partition.train_test_split(split, 1.0)


@pytest.mark.parametrize(
    ("split", "is_test", "words"),
    [
        (5, None, "split = 5: expected a split of maxfl.partition, or a list with the sample"),
        ([1, 2], None, r"split = \[1, 2\]: expected a split"),
        ([[0.5, 1.5]], None, "expected a split of maxfl.partition"),
        ([[0, 1]], [True], r"is_test is bool\[1\], but the split has sample 1: expected True or"),
        ([[0, 1]], [0, 1], r"is_test is int64\[2\], but the split has sample 1"),
    ],
)
def test_what_is_no_split_is_refused(split, is_test, words):
    with pytest.raises(maxfl.InputError, match=words):
        partition.train_test_split(split, is_test=is_test)


def test_a_split_shows_itself_in_a_line():
    split = partition.by_owner(["a"] * 3 + ["b"] * 5 + ["c"])
    note = "1 client with fewer than 2 samples is left out"
    assert repr(split) == f"Split(2 clients, 3 to 5 samples each; {note})"
    assert repr(partition.iid(LABELS, 1, 2)) == "Split(1 client, 2 samples each)"
