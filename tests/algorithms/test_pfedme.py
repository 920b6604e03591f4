"""pFedMe: a round by hand, rounds and personal models against the oracle, FedAvg as a limit."""

import numpy as np
import pytest

import maxfl
from support import oracle
from support import oracle_personal as reference
from support.oracle_runs import LR, assert_is_fedavg, assert_rounds, client_data
from support.two_clients import after, first_of


def test_by_hand():
    # K = 1: θ = −α g_k, and w_k = −η λ α g_k.
    w, run = after(maxfl.pfedme(strength=2.0, inner_steps=1, inner_lr=0.4))
    assert w == pytest.approx(-0.1 * 2.0 * 0.4 * 0.25, rel=1e-5)
    np.testing.assert_allclose(first_of(run.client_states), [0.2, -0.4], rtol=1e-6)


def test_rounds_and_personal_models_agree_with_the_oracle():
    def step(w, state, common, rho):  # noqa: ARG001
        w, personal = reference.pfedme_round(w, *common, lam=2.0, inner_steps=3, inner_lr=0.1)
        return w, {**(state or {}), **personal}

    history, personal = assert_rounds(maxfl.pfedme(2.0, 3, 0.1), step)
    clients = client_data()
    for k, params in personal.items():
        loss = history.scores("personal").judging_loss[0, -1, k]
        assert loss == pytest.approx(oracle.loss(params, *clients[k]), abs=1e-5)


def test_one_inner_step_and_a_strength_of_1_over_the_rate_are_fedavg():
    assert_is_fedavg(maxfl.pfedme(1 / LR, 1, 0.07), rate=0.07)  # λη = 1 and K = 1: the rate is α
