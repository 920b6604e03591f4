"""What decides: the loss, or a metric; by hand."""

import numpy as np
import pytest

import maxfl
from maxfl.core.criterion import Criterion, find_criterion
from maxfl.core.metrics import ACCURACY, MetricInfo

MAE = MetricInfo("mae", higher_is_better=False, percent=False)


def test_a_loss_must_be_beaten():
    loss = Criterion()
    assert loss.satisfied(np.array([0.4, 0.5, 0.6]), 0.5).tolist() == [True, False, False]
    assert loss.value(1.0, (2.0, 3.0)) == 1.0
    assert loss.bound(0.5) == loss.cost(0.5) == 0.5


def test_more_accuracy_is_better_and_as_much_will_do():
    accuracy = find_criterion("accuracy", (MAE, ACCURACY))
    assert accuracy == Criterion(1, higher_is_better=True)
    assert accuracy.value(1.0, (2.0, 3.0)) == 3.0
    found = np.float32([0.7, 0.8, 8 / 10, 0.9, 0.79999])
    assert accuracy.satisfied(found, np.float32(0.8)).tolist() == [False, True, True, True, False]
    assert accuracy.cost(0.7) - accuracy.bound(0.8) == pytest.approx(0.1, abs=1e-6)


def test_less_error_is_better_and_as_much_will_do():
    error = find_criterion("mae", (MAE, ACCURACY))
    assert error == Criterion(0, higher_is_better=False)
    assert error.satisfied(np.float32([0.2, 0.3, 0.31]), np.float32(0.3)).tolist() == [
        True, True, False,
    ]  # fmt: skip
    assert error.satisfied(np.float32([0.0, 0.1]), np.float32(0.0)).tolist() == [True, False]


def test_a_client_without_a_requirement_is_never_satisfied():
    for criterion in (Criterion(), Criterion(0, higher_is_better=True)):
        assert not criterion.satisfied(np.float32(1.0), np.float32(np.nan))


def test_an_unknown_metric_is_refused_by_name():
    with pytest.raises(maxfl.InputError, match=r"has mae, accuracy. Did you mean 'accuracy'"):
        find_criterion("acuracy", (MAE, ACCURACY))
