"""McNemar's exact test, by hand and against SciPy."""

from math import comb

import numpy as np
import pytest
from scipy import stats

from maxfl.report.statistics.mcnemar import exact_mcnemar, mcnemar


def test_by_hand():
    # 1 of 6: 2 (1 + 6) / 64
    assert exact_mcnemar(5, 1) == (5, 1, pytest.approx(14 / 64))
    assert exact_mcnemar(1, 5).p == pytest.approx(14 / 64)
    assert exact_mcnemar(0, 10).p == pytest.approx(2 / 1024)
    assert exact_mcnemar(3, 3).p == 1
    assert exact_mcnemar(0, 0).p == 1


@pytest.mark.parametrize(("b", "c"), [(0, 1), (2, 9), (40, 23), (300, 371)])
def test_against_scipy_and_whole_numbers(b, c):
    p = exact_mcnemar(b, c).p
    assert p == pytest.approx(stats.binomtest(b, b + c).pvalue)
    assert p == pytest.approx(2 * sum(comb(b + c, i) for i in range(min(b, c) + 1)) / 2 ** (b + c))


def test_seeds_with_clients_of_their_own_are_pooled():
    a = [np.array([1, 1, 0, 0], bool), np.array([1, 0, 1], bool)]
    b = [np.array([1, 0, 0, 1], bool), np.array([0, 0, 0], bool)]
    assert mcnemar(a, b) == exact_mcnemar(3, 1)


def test_a_client_of_several_seeds_counts_once():
    a = [np.array([1, 1, 0], bool), np.array([1, 0, 0], bool), np.array([1, 0], bool)]
    b = [np.array([0, 0, 0], bool), np.array([0, 1, 0], bool), np.array([0, 1], bool)]
    ids = [np.arange(3), np.arange(3), np.array([0, 2])]
    # Client 0: A in all three; client 1: one each; client 2: B in the third.
    assert mcnemar(a, b, ids) == exact_mcnemar(1, 1)
    assert mcnemar(a[:1], b[:1], ids[:1]) == mcnemar(a[:1], b[:1])
    assert mcnemar([], []) == (0, 0, 1)
