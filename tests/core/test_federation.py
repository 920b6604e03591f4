"""Clients and their samples: bad data get a clear error before any training."""

import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.checks.samples import client_offsets
from maxfl.core.federation import _flatten

X, Y = np.zeros((3, 2), np.float32), np.array([0, 1, 1])
GOOD = (X, Y)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ((X[:0], Y[:0]), "train data of client 1 is empty"),
        ((X, Y[:2]), "x has shape"),
        ((X, Y.astype(float)), "client 1: labels are float32.., but those of the train data of"),
        ((X, np.stack([Y, Y], 1)), "client 1: labels are int32.2., but"),
        ((X, Y.astype("U1")), "labels are <U1; expected integers or floats"),
        ((X, Y * np.nan), "3 label value.s. are NaN"),
        ((X, np.zeros((3, 0))), "labels without any number"),
        ((X, Y - 1), "labels run from -1 to 0; classes count from 0. If they are numbers"),
        ((X, Y + 2**32), "labels run from"),
        ((X.astype(np.float64) + 1e300, Y), "6 feature value.s. are NaN, infinite or too large"),
        ((np.full((3, 2), 2**40), Y), "integer features beyond 32 bits"),
        ((X * np.nan, Y), "6 feature value.s. are NaN"),
        ((X + np.inf, Y), "NaN, infinite"),
        ((X.astype("U4"), Y), "features are <U"),
        (
            (np.zeros((3, 5), np.float32), Y),
            "client 1: features are float32.5., but",
        ),
        ((np.zeros((3, 0), np.float32), Y), "client 1: x has shape .* without any feature"),
        ((X,), "client 1: expected a pair of arrays"),
        ((X, Y, Y), "client 1: expected a pair of arrays"),
        (None, "client 1: expected a pair of arrays"),
        (([[1.0], [2.0, 3.0]], [0, 1]), "client 1: expected a pair of arrays"),
        ((X, Y + 7), "train data of client 1: label 8, but classes = 2"),
    ],
)
def test_bad_clients_are_named(bad, words):
    with pytest.raises(maxfl.InputError, match=words):
        maxfl.Federation.from_clients([GOOD, bad], [GOOD, GOOD], classes=2)


def test_the_shape_of_the_whole_is_checked():
    for make, words in (
        (
            lambda: maxfl.Federation.from_clients([GOOD], [GOOD] * 2),
            "train has 1 clients and test has 2",
        ),
        (
            lambda: maxfl.Federation.from_clients([GOOD] * 2, [GOOD] * 2, judging=[GOOD]),
            "train has 2 clients and judging has 1",
        ),
        (
            lambda: maxfl.Federation.from_clients([GOOD], [GOOD], judging=3),
            "judging = 3: expected a list",
        ),
        (
            lambda: maxfl.Federation.from_clients(
                [GOOD] * 2, [GOOD] * 2, judging=[GOOD, (X[:0], Y[:0])], names=["a", "b"]
            ),
            "judging data of client b is empty",
        ),
        (
            lambda: maxfl.Federation.from_clients([GOOD], [GOOD], judging=[(X, Y + 7)], classes=2),
            "judging data of client 0: label 8",
        ),
        (lambda: maxfl.Federation.from_clients([], []), "at least one client"),
        (
            lambda: maxfl.Federation.from_clients([GOOD], [GOOD], unseen=1),
            "at least one client must be seen",
        ),
        (lambda: maxfl.Federation.from_clients([GOOD] * 3, [GOOD] * 3, unseen=1.5), "unseen = 1.5"),
        (lambda: maxfl.Federation.from_clients([GOOD], [GOOD], classes=2.5), "classes = 2.5"),
        (lambda: maxfl.Federation.from_clients(3, [GOOD]), "train = 3: expected a list"),
        (
            lambda: maxfl.Federation.from_clients([GOOD], [GOOD], names="ab"),
            "0 different names",
        ),
        (
            lambda: maxfl.Federation.from_clients([GOOD] * 2, [GOOD] * 2, names=["a", "a"]),
            "1 different names for 2 clients",
        ),
        (
            lambda: maxfl.Federation.from_clients([(X, Y + 10**9)], [GOOD]),
            "label 1000000001, more than there are samples",
        ),
    ):
        with pytest.raises(maxfl.InputError, match=words):
            make()


def test_messages_call_clients_by_their_names():
    with pytest.raises(maxfl.InputError, match="test data of client eve: label 8"):
        maxfl.Federation.from_clients(
            [GOOD] * 2, [GOOD, (X, Y + 7)], classes=2, names=["bob", "eve"]
        )


def test_flat_arrays_and_sizes():
    fed = maxfl.Federation.from_clients([GOOD, (X[:1], Y[:1])], [GOOD, GOOD], unseen=1)
    np.testing.assert_array_equal(fed.train.offsets, [0, 3, 4])
    np.testing.assert_array_equal(fed.train_sizes, [3, 1])
    np.testing.assert_array_equal(fed.is_seen, [True, False])
    assert fed.classes == 2
    assert len(fed.digest()) == 64
    assert fed.digest() != maxfl.Federation.from_clients([GOOD] * 2, [GOOD] * 2).digest()


def test_bytes_stay_bytes_until_a_batch_is_drawn():
    images = np.full((2, 4, 4), 255, np.uint8)
    fed = maxfl.Federation.from_clients([(images, [0, 1])], [(images, [0, 1])])
    assert fed.train.x.dtype == np.uint8
    seen = []

    def apply(w, x, _=None):
        seen.append(x.dtype)
        return x.mean((1, 2))[:, None] * w

    model = maxfl.Model(lambda _: jnp.zeros(2), apply)
    maxfl.Simulation(fed, model, maxfl.fedavg(), maxfl.Training(cohort=1))
    assert all(dtype == jnp.float32 for dtype in seen)


def test_more_samples_than_can_be_numbered_are_refused():
    """Offsets are int32: without a check, those beyond 2³¹ would be negative."""
    most = 2**31 - 2**20
    np.testing.assert_array_equal(client_offsets([most - 1, 1], "train"), [0, most - 1, most])
    with pytest.raises(maxfl.InputError, match=r"train: 2,147,483,648 samples in all, but at most"):
        client_offsets([2**30, 2**30], "train")
    # One byte that looks like 2³¹ of them.
    half = np.broadcast_to(np.uint8(1), (2**30, 1)), np.broadcast_to(np.int32(0), 2**30)
    with pytest.raises(maxfl.InputError, match="train: 2,147,483,648 samples in all"):
        _flatten([half, half], "train")


@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        (maxfl.InputScaling(np.zeros(3, np.float32)), "does not fit features of shape"),
        (maxfl.InputScaling(np.zeros((7, 1, 2), np.float32)), "turns features of shape"),
    ],
)
def test_an_input_scaling_that_does_not_fit_is_refused(scaling, words):
    federation = maxfl.Federation.from_clients([GOOD], [GOOD], input_scaling=scaling)
    with pytest.raises(maxfl.InputError, match=words):
        maxfl.Simulation(
            federation, maxfl.mlp(2, (3,), 2), maxfl.fedavg(), maxfl.Training(cohort=1)
        )


@pytest.mark.parametrize(
    ("y", "stored", "classes"),
    [
        (np.array([0, 1, 1]), np.int32, 2),
        (np.array([True, False, True]), np.int32, 2),
        (np.array([0.5, -1.0, 2.0]), np.float32, None),
        (np.array([[1, 0], [0, 1], [1, 1]]), np.int32, None),
        (np.array([[-1, 5], [2, 3], [0, 0]]), np.int32, None),
    ],
)
def test_labels_may_be_anything_and_one_integer_is_a_class(y, stored, classes):
    federation = maxfl.Federation.from_clients([(X, y)], [(X, y)])
    assert federation.classes == classes
    assert federation.train.y.dtype == stored
    np.testing.assert_array_equal(federation.train.y, y)
    assert federation.digest() != maxfl.Federation.from_clients([GOOD], [(X, Y[::-1])]).digest()


def test_classes_of_other_labels_are_refused():
    with pytest.raises(maxfl.InputError, match="only one integer per sample is a class"):
        maxfl.Federation.from_clients([(X, X)], [(X, X)], classes=2)


def test_clients_may_bring_what_they_judge_by():
    judged = [(X[:2] + 1, Y[:2]), (X[:1] + 2, [3])]
    found = maxfl.Federation.from_clients([GOOD] * 2, [GOOD] * 2, judging=judged)
    assert found.judged is found.judging
    assert found.judging_sizes.tolist() == [2, 1]
    assert found.judging.x[:, 0].tolist() == [1, 1, 2]
    assert found.classes == 4
    assert "3 train, 1 to 2 judging and 3 test samples each" in repr(found)
    without = maxfl.Federation.from_clients([GOOD] * 2, [GOOD] * 2, classes=4)
    assert without.judging is None
    assert without.digest() != found.digest()
