"""HypCluster: a round by hand, many rounds against the oracle, FedAvg by size with one model."""

import jax
import numpy as np
import pytest

import maxfl
from support import small
from support.oracle_portfolio import Method
from support.oracle_runs import TRAINING
from support.portfolio_runs import Run, assert_untrained_stay, clustering
from support.three_models import A, after_a_round, first_components, trained_by_client


def test_by_hand():
    # Client 1 has two samples: model 1 moves by −(2Δ₁ + Δ₂)/3.
    history = after_a_round(maxfl.hypcluster())
    assert trained_by_client(history) == [0, 1, 1]
    expected = [A + 0.025, -A - 0.065 / 3, 0.0]
    np.testing.assert_allclose(first_components(history), expected, rtol=1e-6)


@pytest.mark.slow
def test_many_rounds_agree_with_the_oracle():
    rounds = Run(
        small.train(**clustering(maxfl.hypcluster(), 3)), Method("size"), 3, seed=0
    ).follow()
    assert {j for round_ in rounds for j in round_.trained} == {1, 2}


@pytest.mark.slow
def test_a_model_that_nobody_picks_stays_as_it_is():
    assert_untrained_stay(
        small.simulation(**clustering(maxfl.hypcluster(), 3)).start(),
        small.train(**clustering(maxfl.hypcluster(), 3)),
    )


@pytest.mark.slow
def test_with_one_model_it_is_fedavg_by_size():
    one = small.train(**clustering(maxfl.hypcluster(), 1))
    plain = small.train(maxfl.fedavg(by_size=1), TRAINING._replace(rounds=6), seed=0)
    for a, b in zip(*(jax.tree.leaves(run.params) for run in (one, plain)), strict=True):
        np.testing.assert_array_equal(a.ravel(), b.ravel())
