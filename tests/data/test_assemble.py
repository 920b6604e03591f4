"""Federations from a split: training and test data, flipped clients, validation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maxfl
from maxfl.data import partition
from maxfl.data.assemble import FLIPS, assemble, iterate_clients, label_map, train_test_split
from maxfl.data.dataset import Dataset
from maxfl.data.partition import Split

LABELS = np.repeat(np.arange(6), 50).astype(np.int32)


def rng(seed=0):
    return np.random.default_rng(seed)


DATA = Dataset("numbers", np.arange(300.0, dtype=np.float32)[:, None], LABELS, tuple("abcdef"))


OWNER = np.arange(300) % 37


SPLITS = {
    "dirichlet": lambda k, _, g: partition.dirichlet(LABELS, k, 6, 0.1, g),
    "dirichlet-unequal": lambda k, _, g: partition.dirichlet_unequal(LABELS, k, 0.1, 6, g),
    "clusters": lambda k, _, g: partition.clusters(LABELS, k, 6, 3, g),
    "shards": lambda k, _, g: partition.shards(LABELS, k, 6, 2, g),
    "iid": lambda k, _, g: partition.iid(LABELS, k, 6, g),
    "by-owner": lambda _, unseen, g: partition.by_owner(OWNER, unseen, 6, g),
}


@pytest.mark.parametrize("name", SPLITS)
@settings(max_examples=25, deadline=None)
@given(
    clients=st.integers(2, 40),
    unseen=st.integers(0, 20),
    flipped=st.sampled_from([0.0, 0.3, 1.0]),
    flip=st.sampled_from(FLIPS),
    seed=st.integers(0, 1000),
)
def test_every_federation_is_as_asked(name, clients, unseen, flipped, flip, seed):
    unseen = min(unseen, clients - 1)

    def make():
        generator = rng(seed)
        split = SPLITS[name](clients, unseen, generator)
        return split, assemble(
            DATA, split, generator, unseen=unseen, flipped_fraction=flipped, flip=flip
        )

    split, fed = make()
    sizes = fed.train_sizes + fed.test_sizes
    if name == "by-owner":
        assert fed.clients == 37
        assert sizes.tolist() == np.bincount(OWNER)[split.names].tolist()
    else:
        assert fed.clients == clients
        least_wanted = sizes >= 6 if name == "dirichlet-unequal" else sizes == 6
        assert least_wanted.all()
    assert fed.seen == fed.clients - unseen
    # Features are sample numbers: nobody, seen or unseen, has a sample of another.
    used = np.concatenate([fed.train.x, fed.test.x]).ravel().astype(int)
    assert len(np.unique(used)) == len(used)
    assert fed.metadata.flipped.sum() == round(flipped * fed.clients)
    for samples in (fed.train, fed.test):
        unchanged = samples.y == LABELS[samples.x.ravel().astype(int)]
        np.testing.assert_array_equal(
            ~unchanged, np.repeat(fed.metadata.flipped, np.diff(samples.offsets))
        )
    assert make()[1].digest() == fed.digest()


def test_assembled_clients_split_60_40_without_overlap():
    split = partition.iid(LABELS, 10, 20, rng())
    fed = assemble(DATA, split, rng(), unseen=4)
    assert set(fed.train_sizes) == {12}
    assert set(fed.test_sizes) == {8}
    assert fed.seen == 6
    everything = np.concatenate([fed.train.x, fed.test.x]).ravel()
    assert len(np.unique(everything)) == 200


def test_flipped_clients_have_new_labels():
    split = partition.iid(LABELS, 10, 20, rng())
    for flip, new in (("reverse", lambda y: 5 - y), ("shift", lambda y: (y + 1) % 6)):
        fed = assemble(DATA, split, rng(), flipped_fraction=0.3, flip=flip)
        assert fed.metadata.flipped.sum() == 3
        for samples in (fed.train, fed.test):
            truth = LABELS[samples.x.ravel().astype(int)]
            flipped = np.repeat(fed.metadata.flipped, np.diff(samples.offsets))
            np.testing.assert_array_equal(samples.y[flipped], new(truth[flipped]))
            np.testing.assert_array_equal(samples.y[~flipped], truth[~flipped])


@given(classes=st.integers(2, 70), seed=st.integers(0, 100))
def test_flips_change_every_label(classes, seed):
    for flip in FLIPS:
        new = label_map(flip, classes, rng(seed))
        np.testing.assert_array_equal(np.sort(new), np.arange(classes))
        unchanged = np.flatnonzero(new == np.arange(classes)).tolist()
        middle = [classes // 2] if flip == "reverse" and classes % 2 else []
        assert unchanged == middle


def test_validation_never_touches_the_test_data():
    split = partition.iid(LABELS, 10, 20, rng())
    real = assemble(DATA, split, rng())
    finetune_steps = assemble(DATA, split, rng(), validation=True)
    assert set(finetune_steps.train_sizes) == {9}
    assert set(finetune_steps.test_sizes) == {3}
    seen = np.concatenate([finetune_steps.train.x, finetune_steps.test.x])
    assert not np.isin(seen, real.test.x).any()


def test_a_split_of_the_datas_own_is_kept():
    given = DATA._replace(is_test=np.arange(300) % 4 == 0, notes=("split",))
    split = partition.by_owner(OWNER, 0, 6, rng())
    fed = assemble(given, split, rng(), train_fraction=0.1)
    assert (fed.test.x.ravel() % 4 == 0).all()
    assert (fed.train.x.ravel() % 4 != 0).all()
    assert len(fed.test.x) + len(fed.train.x) == 300
    assert fed.metadata.notes == ("split",)
    held_out = assemble(given, split, rng(), validation=True)
    assert (held_out.test.x.ravel() % 4 != 0).all()
    with pytest.raises(maxfl.InputError, match="client 0 has no test samples in the data's own"):
        assemble(given, Split([np.array([1, 2, 3])]), rng())


def test_what_clients_judge_by_is_kept_too():
    row = np.arange(300)
    given = DATA._replace(is_test=row % 4 == 0, is_judging=row % 4 < 2)
    split = partition.by_owner(OWNER, 0, 6, rng())
    fed = assemble(given, split, rng(), flipped_fraction=0.5)
    for samples, rest in ((fed.train, (2, 3)), (fed.judging, (1,)), (fed.test, (0,))):
        assert np.isin(samples.x.ravel() % 4, rest).all()
    assert sum(len(part.y) for part in (fed.train, fed.judging, fed.test)) == 300
    parts = train_test_split(given, split, rng(), flipped_fraction=0.5)
    for k, client in enumerate(iterate_clients(given, parts)):
        for name, (x, y) in client._asdict().items():
            samples = getattr(fed, name)
            rows = slice(*samples.offsets[k : k + 2])
            np.testing.assert_array_equal(samples.x[rows], x)
            np.testing.assert_array_equal(samples.y[rows], y)
    held_out = assemble(given, split, rng(), validation=True)
    np.testing.assert_array_equal(np.sort(held_out.judging.x, 0), np.sort(fed.judging.x, 0))
    with pytest.raises(maxfl.InputError, match="client 0 has no judging samples in the data's own"):
        assemble(given, Split([np.array([0, 2, 3])]), rng())
    with pytest.raises(maxfl.InputError, match="client 0 has no training samples in the data's"):
        assemble(given, Split([np.array([0, 1, 5])]), rng())


def test_samples_that_overlap_are_split_in_their_order():
    windows = DATA._replace(overlap=3)
    fed = assemble(windows, Split([np.arange(20)]), rng())
    assert fed.train.x.ravel().tolist() == list(range(10))
    assert fed.test.x.ravel().tolist() == list(range(13, 20))
    with pytest.raises(maxfl.InputError, match=r"client 0 has 4 .* where 5, of which 3 overlap"):
        assemble(windows, Split([np.arange(4)]), rng())


def test_too_small_clients_are_refused():
    with pytest.raises(maxfl.InputError, match="client 1 has 1 sample"):
        assemble(DATA, Split([np.arange(5), np.arange(5, 6)]), rng())
    with pytest.raises(maxfl.InputError, match="client 0 has 1 training sample"):
        assemble(DATA, Split([np.arange(4)]), rng(), train_fraction=0.3, validation=True)
