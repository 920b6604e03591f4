"""Ditto: two rounds by hand, rounds and personal models against the oracle, FedAvg for all."""

import jax
import numpy as np
import pytest

import maxfl
from support import oracle
from support import oracle_personal as reference
from support.oracle_runs import LR, assert_is_fedavg, assert_rounds, client_data, trained
from support.small import SMALL
from support.two_clients import after, first_of, gradients


def test_by_hand():
    # The server sees FedAvg. v_k = −0.1 g_k; in round 2 it is pulled towards the new w.
    w, run = after(maxfl.ditto(strength=2.0), rounds=2)
    assert w == pytest.approx(after(maxfl.fedavg(), rounds=2)[0])
    first = np.array([0.05, -0.1])
    g = [gradients(v)[k] for k, v in enumerate(first)]
    expected = first - 0.1 * (np.array(g) + 2.0 * (first + 0.025))
    np.testing.assert_allclose(first_of(run.client_states), expected, rtol=1e-5)


def test_rounds_and_personal_models_agree_with_the_oracle():
    def step(w, state, common, rho):  # noqa: ARG001
        return reference.ditto_round(w, *common, state or {}, lam=0.5)

    history, personal = assert_rounds(maxfl.ditto(0.5), step)
    clients = client_data()
    for k, params in personal.items():
        loss = history.scores("personal").judging_loss[0, -1, k]
        assert loss == pytest.approx(oracle.loss(params, *clients[k]), abs=1e-5)


def test_the_global_model_is_that_of_fedavg():
    assert_is_fedavg(maxfl.ditto(0.5))


def test_a_personal_model_held_tight_is_the_global_one_and_held_loosely_is_not():
    # λη = 1 puts v_k back on w at every step, less the step itself.
    def apart(history):
        personal, shared = history.scores("personal").judging_loss, history.evaluation.judging_loss
        return abs(np.asarray(personal) - np.asarray(shared))[0, -1, : SMALL.seen].mean()

    tight, loose = trained(maxfl.ditto(1 / LR)), trained(maxfl.ditto(0.0))
    assert apart(tight) < 0.5 * apart(loose)


def test_unseen_clients_use_the_global_model():
    history = trained(maxfl.ditto(0.5))
    personal, shared = history.scores("personal").test_loss, history.evaluation.test_loss
    np.testing.assert_allclose(personal[..., SMALL.seen :], shared[..., SMALL.seen :], atol=1e-5)
    assert abs(personal - shared)[0, -1, : SMALL.seen].max() > 1e-3


def test_diverging_personal_models_mark_their_configuration():
    fine, wild = trained(maxfl.ditto(0.5)), trained(maxfl.ditto(1e4))
    evaluation, thresholds, is_byzantine = jax.tree.map(
        lambda a, b: np.concatenate([a, b]),
        *((h.evaluation, h.thresholds, h.is_byzantine) for h in (fine, wild)),
    )
    both = fine._replace(evaluation=evaluation, thresholds=thresholds, is_byzantine=is_byzantine)
    assert both.failed().tolist() == [False, True]
    assert np.isfinite(both.evaluation.judging_loss).all()
