"""Partitions: what was asked for, nothing twice, and always an end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maxfl
from maxfl.data import partition
from maxfl.data.assemble import assemble
from maxfl.data.dataset import Dataset
from maxfl.data.embedded import fashion_mnist_12k

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
    parts = partition.dirichlet(LABELS, clients, samples, alpha, rng(seed))
    assert [len(p) for p in parts] == [samples] * clients
    used = np.concatenate(parts)
    assert len(np.unique(used)) == len(used)
    again = partition.dirichlet(LABELS, clients, samples, alpha, rng(seed))
    np.testing.assert_array_equal(np.stack(parts), np.stack(again))


def test_dirichlet_ends_when_it_takes_everything():
    parts = partition.dirichlet(LABELS, 30, 10, 0.001, rng())
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(300))


def test_small_alpha_is_skewed_and_large_alpha_is_even():
    y = np.repeat(np.arange(10), 2000).astype(np.int32)

    def concentration(alpha):
        """Mean of Σ p², whose expectation is (1 + α)/(1 + 10α)."""
        parts = partition.dirichlet(y, 100, 60, alpha, rng(1))
        shares = [np.bincount(y[p], minlength=10) / 60 for p in parts]
        return np.mean([(s**2).sum() for s in shares])

    for alpha in (0.1, 0.5, 10.0):
        # A sample of 60 adds (1 − Σp²)/60 to the expectation.
        expected = (1 + alpha) / (1 + 10 * alpha)
        assert concentration(alpha) == pytest.approx(expected + (1 - expected) / 60, rel=0.12)


def test_clusters_give_each_client_the_labels_of_one_group():
    parts = partition.clusters(LABELS, 9, 20, 3, rng())
    groups = [set(LABELS[p] // 2) for p in parts]
    assert all(len(g) == 1 for g in groups)
    assert sorted(g.pop() for g in groups) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert len(np.unique(np.concatenate(parts))) == 180


def test_by_owner_keeps_owners_together_and_in_order():
    owner = np.array(["g", "c", "g", "c", "c", "i", "a"])
    parts, names = partition.by_owner(owner, 0, rng())
    assert [p.tolist() for p in parts] == [[0, 2], [1, 3, 4], [5], [6]]
    assert names.tolist() == ["g", "c", "i", "a"]


def test_unseen_owners_are_drawn_at_random_and_come_last():
    owner = np.arange(10).repeat(2)
    unseen = set()
    for seed in range(20):
        parts, names = partition.by_owner(owner, 3, rng(seed))
        assert sorted(names[:7]) == names[:7].tolist()
        assert all((owner[p] == name).all() for p, name in zip(parts, names, strict=True))
        unseen |= set(names[7:].tolist())
    assert len(unseen) == 10
    with pytest.raises(maxfl.InputError, match=r"data\.unseen = 10: want a whole number"):
        partition.by_owner(owner, 10, rng())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: partition.dirichlet(LABELS, 31, 10, 0.5, rng()), "need 310 samples, but .* 300"),
        (lambda: partition.dirichlet(LABELS, 3, 10, 0.0, rng()), "data.alpha = 0"),
        (lambda: partition.clusters(LABELS, 4, 10, 4, rng()), "does not divide the 6 labels"),
        (lambda: partition.clusters(LABELS[:280], 3, 90, 3, rng()), "labels 4 to 5, but .* 80"),
        (lambda: partition.iid(LABELS, 3, 1, rng()), "data.samples = 1"),
    ],
)  # fmt: skip
def test_what_can_not_be_split_is_refused(make, words):
    with pytest.raises(maxfl.InputError, match=words):
        make()


DATA = Dataset(np.arange(300.0)[:, None], LABELS, 6)


def test_assembled_clients_split_60_40_without_overlap():
    parts = partition.iid(LABELS, 10, 20, rng())
    fed = assemble(DATA, parts, rng(), unseen=4)
    assert set(fed.train_sizes) == {12}
    assert set(fed.test_sizes) == {8}
    assert fed.seen == 6
    everything = np.concatenate([fed.train.x, fed.test.x]).ravel()
    assert len(np.unique(everything)) == 200


def test_flipped_clients_have_reversed_labels():
    parts = partition.iid(LABELS, 10, 20, rng())
    fed = assemble(DATA, parts, rng(), flipped=0.3)
    truth = LABELS[fed.train.x.ravel().astype(int)]
    flipped = [
        (fed.train.y[a:b] == 5 - truth[a:b]).all() and (fed.train.y[a:b] != truth[a:b]).any()
        for a, b in zip(fed.train.offsets, fed.train.offsets[1:], strict=False)
    ]
    assert sum(flipped) == 3


def test_validation_never_touches_the_test_data():
    parts = partition.iid(LABELS, 10, 20, rng())
    real = assemble(DATA, parts, rng())
    tuning = assemble(DATA, parts, rng(), validation=True)
    assert set(tuning.train_sizes) == {9}
    assert set(tuning.test_sizes) == {3}
    seen = np.concatenate([tuning.train.x, tuning.test.x])
    assert not np.isin(seen, real.test.x).any()


def test_too_small_clients_are_refused():
    with pytest.raises(maxfl.InputError, match="client 1 has 1 sample"):
        assemble(DATA, [np.arange(5), np.arange(5, 6)], rng())
    with pytest.raises(maxfl.InputError, match="client 0 has 1 sample"):
        assemble(DATA, [np.arange(4)], rng(), train_share=0.3, validation=True)


def test_embedded_data_are_whole_and_balanced():
    data = fashion_mnist_12k()
    assert data.x.shape == (12_000, 28, 28)
    assert data.x.dtype == np.uint8
    np.testing.assert_array_equal(np.bincount(data.y), [1200] * 10)
    pixels = (data.x.astype(np.float32) - data.decoding.shift) * data.decoding.scale
    assert abs(pixels.mean()) < 0.01
    assert pixels.std() == pytest.approx(1, abs=0.01)
