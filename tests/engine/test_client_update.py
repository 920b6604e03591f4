"""Clients fine-tune the model: on training data only, before they weigh it, seen or unseen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.prng import Purpose
from maxfl.engine.minibatches import BatchGradient, Minibatches, Task
from support import oracle
from support.oracle_runs import (
    LR,
    SERVER_LR,
    assert_params,
    client_data,
    client_deltas,
    final_params,
    initial_params,
    minibatch_gradient,
    participants,
    trained,
)
from support.small import MODEL, SMALL

STEPS = (0, 3)
"""Of two configurations; the first does not fine-tune."""


@pytest.fixture(scope="module")
def finetuned():
    return trained(maxfl.maxfl(0.7, 0.02), finetune_steps=STEPS)


def finetune(w, clients, k):
    """Return the oracle's model after the steps of client k."""
    gradient_of = minibatch_gradient(clients, 0, Purpose.FINETUNING)
    for r in range(STEPS[1]):
        w = oracle.add_scaled(w, gradient_of(k, w, r + 1), -LR)
    return w


def test_finetuned_models_agree_with_the_oracle(finetuned):
    train, test = client_data(), client_data(SMALL.test)
    shared, personal = final_params(finetuned, 1), finetuned.scores("personal")
    for k in range(SMALL.clients):
        w = finetune(shared, train, k)
        assert personal.judging_loss[1, -1, k] == pytest.approx(oracle.loss(w, *train[k]), abs=1e-5)
        assert personal.test_loss[1, -1, k] == pytest.approx(oracle.loss(w, *test[k]), abs=1e-5)
        assert personal.test_metrics[0][1, -1, k] == pytest.approx(oracle.accuracy(w, *test[k]))
        gap = personal.judging_loss[1, -1, k] - finetuned.thresholds.judging[1, k]
        weight = finetuned.evaluation.weight[1, -1, k]
        assert weight == pytest.approx(oracle.weight(gap, 0.7), abs=1e-6)


def test_weights_are_computed_after_finetuning(finetuned):
    """Rounds of MaxFL, replayed: q of the fine-tuned loss, updates of the plain model."""
    clients, w = client_data(), initial_params()
    for t in range(finetuned.cohorts.client_id.shape[1]):
        cohort = participants(finetuned, t, 1)
        losses = [oracle.loss(finetune(w, clients, k), *clients[k]) for k in cohort]
        gaps = np.array(losses) - finetuned.thresholds.judging[1, cohort]
        q = [oracle.weight(gap, 0.7) for gap in gaps]
        np.testing.assert_allclose(finetuned.cohorts.weight[1, t], q, atol=1e-5)
        deltas = client_deltas(w, clients, cohort, t)
        w = oracle.server_step(w, deltas, q, sum(q) + 0.02, SERVER_LR)
    assert_params(finetuned, w, 1)


def test_finetuning_sweeps_and_zero_steps_are_the_global_model(finetuned):
    personal, shared = finetuned.scores("personal"), finetuned.evaluation
    np.testing.assert_allclose(personal.judging_loss[0], shared.judging_loss[0], atol=1e-5)
    assert (personal.judging_loss[1, -1] < shared.judging_loss[1, -1]).mean() > 0.7
    assert finetuned.gm_appeal("unseen", model="personal").shape == (2, 5)


def test_a_method_may_name_the_scale_of_a_gradient():
    train = jax.tree.map(jnp.asarray, SMALL.train)
    gradient = BatchGradient(
        Task(MODEL, SMALL.input_scaling, train), Minibatches(0, jax.random.key(0), 4)
    )
    params = MODEL.init(jax.random.key(1))
    twice, once = gradient(params, 0, scale=2.0), gradient(params, 0)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, 2 * b, rtol=1e-5), twice, once)
