"""The server's optimizers: against the oracle, with a method, and at rest when nobody works."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core import server_optimizers
from maxfl.core.server_optimizers import take_step, transformation
from support import oracle
from support import oracle_server as reference
from support.oracle_runs import (
    SERVER_LR,
    assert_params,
    client_data,
    client_deltas,
    initial_params,
    participants,
    trained,
)
from support.small import PAPER
from support.two_clients import after


def test_optimizers_agree_with_the_oracle():
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(5, 3, 2))
    for optimizer, name in (
        (server_optimizers.momentum(0.8), "momentum"),
        (server_optimizers.adam(0.8, 0.95, 0.01), "adam"),
        (server_optimizers.yogi(0.8, 0.95, 0.01), "yogi"),
    ):
        params = jnp.zeros((3, 2))
        opt_state = transformation(optimizer.kind, optimizer.hparams).init(params)
        theirs = [(np.zeros((3, 2)), np.zeros(0))]
        state = {
            "momentum": reference.zeros_like(theirs), "adam": reference.adam_start(theirs),
            "yogi": reference.yogi_start(theirs),
        }[name]  # fmt: skip
        step = jax.jit(take_step, static_argnums=0)
        for d in directions:
            params, opt_state = step(
                optimizer.kind, optimizer.hparams, 0.3, jnp.asarray(d, jnp.float32), params,
                opt_state,
            )  # fmt: skip
            wide = [(d, np.zeros(0))]
            if name == "momentum":
                theirs, state = reference.momentum(theirs, wide, state, 0.3, 0.8)
            else:
                rule = getattr(reference, name)
                theirs, state = rule(theirs, wide, state, 0.3, 0.8, 0.95, 0.01)
            np.testing.assert_allclose(params, theirs[0][0], atol=1e-5)


def test_they_compose_with_a_method():
    # Adam's first step is η d/(|d| + ε'), whatever the direction's length; MaxFL's is (+, −).
    w, _ = after(maxfl.maxfl(), server_optimizer=server_optimizers.adam(eps=1e-6))
    assert abs(w) == pytest.approx(1.0, rel=1e-2)
    moved, run = after(maxfl.fedavg(), rounds=3, server_optimizer=server_optimizers.momentum(0.9))
    plain, _ = after(maxfl.fedavg(), rounds=3)
    assert abs(moved) > abs(plain)
    assert run.opt_state.trace.size > 0


def test_momentum_agrees_with_the_oracle_and_rests_when_nobody_works():
    # From round 2 on nobody is willing: momentum must not carry the model on. Nobody attacks;
    # it is said so that tests of Byzantine clients have the same program.
    history = trained(
        maxfl.maxfl(epsilon=0.0), participation=maxfl.opt_out(2),
        requirement=maxfl.fixed(1e-6, **PAPER),
        server_optimizer=server_optimizers.momentum(0.9), attack=maxfl.attacks.byzantine(0.0),
    )  # fmt: skip
    clients, w = client_data(), initial_params()
    velocity = reference.zeros_like(w)
    for t in range(2):
        deltas = client_deltas(w, clients, participants(history, t), t)
        q = history.cohorts.weight[0, t].astype(float)
        mean = oracle.server_step(reference.zeros_like(w), deltas, q, q.sum(), -1.0)
        w, velocity = reference.momentum(w, mean, velocity, SERVER_LR, 0.9)
    assert_params(history, w)
    assert not history.is_byzantine.any()
    assert not history.cohorts.participated[0, 2:].any()
    losses = history.evaluation.judging_loss[0, 2:]
    np.testing.assert_array_equal(losses, np.broadcast_to(losses[0], losses.shape))


def test_bad_numbers_are_refused():
    with pytest.raises(maxfl.InputError, match=r"server\.beta1"):
        server_optimizers.adam(beta1=1.0)
