"""What features are filled in and scaled with is of training rows of seen clients alone."""

import numpy as np
import pytest

from maxfl.core.federation import InputScaling
from maxfl.data.assemble import assemble
from maxfl.data.dataset import Dataset
from maxfl.data.partition import Split
from maxfl.data.tables.inputs import fit_inputs
from maxfl.utils.errors import InputError

NAN = float("nan")
X = np.array([[1, 5, 0], [3, 5, 1], [NAN, 5, 0], [100, 9, 1], [NAN, 7, 1]], np.float32)
DATASET = Dataset("t", X, np.zeros(5, np.int32), ("a",), features=("a", "b", "c"))
TRAINING = [np.array([0, 1]), np.array([2])]


def test_by_hand():
    asked = DATASET._replace(standardized=np.array([True, True, False]), fills_missing=True)
    fill, scaling = fit_inputs(asked, TRAINING)
    assert fill.tolist() == pytest.approx([2, 5, 1 / 3])
    assert scaling.shift.tolist() == [2, 5, 0]
    # Deviations from 2 are -1, 1, and 0 of what is filled in; a constant column is only shifted.
    assert scaling.scale.tolist() == pytest.approx([np.sqrt(3 / 2), 1, 1])
    assert scaling.scale.dtype == np.float32
    only_filled = fit_inputs(DATASET._replace(fills_missing=True), TRAINING)
    assert only_filled.scaling == InputScaling()
    nothing = fit_inputs(DATASET._replace(x=np.zeros((5, 3), np.uint8)), TRAINING)
    assert nothing.fill is None
    assert nothing.scaling.scale == np.float32(1 / 255)


def test_constants_are_not_blown_up_by_rounding():
    x = np.full((1000, 1), 0.1, np.float32)
    found = fit_inputs(DATASET._replace(x=x, standardized=np.array([True])), [np.arange(1000)])
    assert found.scaling.scale == 1


def test_a_federation_is_filled_without_a_look_at_test_rows_and_unseen_clients():
    x = np.array([[1], [3], [50], [NAN], [1000], [NAN]], np.float32)
    is_test = np.array([False, False, True, True, False, True])
    asked = Dataset(
        "t", x, np.zeros(6, np.int32), ("a",), is_test=is_test, features=("a",),
        standardized=np.array([True]), fills_missing=True,
    )  # fmt: skip
    split = Split([np.arange(4), np.array([4, 5])])
    federation = assemble(asked, split, np.random.default_rng(0), unseen=1)
    assert sorted(federation.test.x.ravel().tolist()) == [2, 2, 50]
    assert federation.input_scaling.shift == 2
    assert federation.input_scaling.scale == 1
    assert np.isnan(asked.x).sum() == 2  # the data set is split again for another seed


def test_no_value_gives_no_mean():
    asked = DATASET._replace(fills_missing=True)
    with pytest.raises(InputError, match="no training row of a seen client has a value in 'a'"):
        fit_inputs(asked, [np.array([2, 4])])
