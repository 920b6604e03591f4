"""Per-FedAvg: a round by hand, rounds of both variants against the oracle, adapted models."""

import jax
import numpy as np
import pytest

import maxfl
from maxfl.core.prng import Purpose
from support import oracle
from support import oracle_personal as reference
from support.eager import local_task
from support.oracle_runs import assert_rounds, client_data, final_params, minibatch_gradient
from support.small import SMALL
from support.two_clients import CLIENTS, LINEAR, after, gradients

ALPHA = 0.3


def test_by_hand():
    # One sample each, so all minibatches are alike: w' = −α g_k(0), then a step along g_k(w').
    ahead = [gradients(-ALPHA * g)[k] for k, g in enumerate((-0.5, 1.0))]
    w, _ = after(maxfl.perfedavg(ALPHA))
    assert w == pytest.approx(-0.1 * np.mean(ahead), rel=1e-5)
    # Hessian at 0 along (1, −1): x² · 2 p(1 − p) = x²/2, and g − α H g.
    exact = [g - ALPHA * x**2 / 2 * g for g, x in zip(ahead, (1, 2), strict=True)]
    w, _ = after(maxfl.perfedavg_hf(ALPHA, delta=1e-2))
    assert w == pytest.approx(-0.1 * np.mean(exact), rel=1e-3)


def test_an_adapted_model_by_hand():
    method = maxfl.perfedavg(ALPHA)
    w, run = after(method)
    for k, gradient in enumerate(gradients(w)):
        task = local_task(LINEAR, CLIENTS[k], 1, 0.1)
        with jax.disable_jit():
            adapted = method.personalize(method.hparams, run.server, (), None, task)
        assert float(adapted[0, 0]) == pytest.approx(w - ALPHA * gradient, rel=1e-5)


@pytest.mark.parametrize(
    ("method", "delta"),
    [(maxfl.perfedavg(ALPHA), None), (maxfl.perfedavg_hf(ALPHA, 0.05), 0.05)],
    ids=["first order", "Hessian-free"],
)
def test_rounds_agree_with_the_oracle(method, delta):
    def step(w, state, common, rho):  # noqa: ARG001
        return reference.perfedavg_round(w, *common, alpha=ALPHA, delta=delta), None

    history, _ = assert_rounds(method, step)
    # Clients use the model after one step of α, on the first minibatch that is not for training.
    shared, personal = final_params(history), history.scores("personal")
    train, test = client_data(), client_data(SMALL.test)
    gradient_of = minibatch_gradient(train, 0, Purpose.FINETUNING)
    for k in range(SMALL.clients):
        adapted = oracle.add_scaled(shared, gradient_of(k, shared, 0), -ALPHA)
        for losses, data in ((personal.judging_loss, train), (personal.test_loss, test)):
            assert losses[0, -1, k] == pytest.approx(oracle.loss(adapted, *data[k]), abs=1e-5)
