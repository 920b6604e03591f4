"""Test data that would be noticed wherever they were looked at."""

import jax
import numpy as np

from maxfl.core.federation import Samples
from support.federations import CLASSES


def poison(test):
    """Return test samples of the same shape with other labels and huge features."""
    return Samples(
        -1e4 * np.asarray(test.x) - 1e5, (np.asarray(test.y) + 1) % CLASSES, test.offsets
    )


def assert_same_but_test(clean, poisoned):
    """Compare all that training gives bit by bit, and see that what is reported is another."""
    for name in ("params", "cohorts", "steps"):
        _assert_equal(getattr(clean, name), getattr(poisoned, name))
    _assert_equal(clean.thresholds.judging, poisoned.thresholds.judging)
    _assert_equal(clean.solo.judging_loss, poisoned.solo.judging_loss)
    for name in ("judging_loss", "weight", "willing"):
        _assert_equal(getattr(clean.evaluation, name), getattr(poisoned.evaluation, name))
    assert (clean.evaluation.test_loss != poisoned.evaluation.test_loss).any()
    assert (clean.solo.test_loss != poisoned.solo.test_loss).any()


def _assert_equal(ours, theirs):
    for a, b in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True):
        np.testing.assert_array_equal(a, b)
