"""AFL: two rounds by hand, rounds against the oracle, FedAvg as a limit."""

import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.algorithms.afl import project
from support import oracle_methods as reference
from support.oracle_runs import assert_is_fedavg, assert_rounds
from support.two_clients import after


def test_by_hand():
    np.testing.assert_allclose(project(jnp.array([0.6, 0.5])), [0.55, 0.45], rtol=1e-6)
    np.testing.assert_allclose(project(jnp.array([2.0, 0.5, 0.4])), [1, 0, 0], atol=1e-6)
    w, run = after(maxfl.afl(gamma=0.3))  # equal losses leave λ at ½ each
    assert w == pytest.approx(-0.025)
    np.testing.assert_allclose(run.server.state, [0.5, 0.5], rtol=1e-6)
    w, run = after(maxfl.afl(gamma=0.3), rounds=2)
    losses = np.array([np.log1p(np.exp(0.05)), np.log1p(np.exp(-0.1))])
    mixture = 0.5 + 0.3 * (losses - losses.mean())
    np.testing.assert_allclose(run.server.state, mixture, rtol=1e-5)


def test_rounds_agree_with_the_oracle():
    def step(w, state, common, rho):  # noqa: ARG001
        mixture = np.full(len(common[0]), 1 / len(common[0])) if state is None else state
        return reference.afl_round(w, *common, mixture, gamma=0.1)

    assert_rounds(maxfl.afl(0.1), step)


@pytest.mark.slow
def test_gamma_0_is_fedavg():
    assert_is_fedavg(maxfl.afl(0.0))
