"""MaxFL with other surrogates: weights by hand, rounds against the oracle, FedAvg as a limit."""

import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.algorithm import Client
from support import oracle_methods as reference
from support.oracle_runs import assert_is_fedavg, assert_rounds
from support.two_clients import LN2, after


def test_by_hand():
    # Gaps −ln 3 and ln 3: q is 3/16 both; 0 and 1; ¼ and ¾; 1/3 and 3.
    loss = jnp.full(2, LN2)
    requirement = loss + np.log(3) * np.array([1, -1])
    clients = Client(jnp.arange(2), jnp.ones(2), loss, loss, requirement)
    for method, q in (
        (maxfl.maxfl(), (3 / 16, 3 / 16)),
        (maxfl.maxfl_relu(), (0, 1)),
        (maxfl.maxfl_log(), (0.25, 0.75)),
        (maxfl.maxfl_exponential(), (1 / 3, 3)),
    ):
        np.testing.assert_allclose(method.weight(method.hparams, None, clients), q, rtol=1e-5)
    # Δ = −0.05 and 0.1, so a round with ε = ½ and q = (0, 1) is w = −0.1/1.5.
    w, _ = after(maxfl.maxfl_relu(epsilon=0.5), requirement=(LN2 + 1, LN2 - 1))
    assert w == pytest.approx(-0.1 / 1.5, rel=1e-5)


@pytest.mark.parametrize(
    ("method", "surrogate"),
    [
        (maxfl.maxfl_relu(0.7, 0.02), "relu"),
        (maxfl.maxfl_log(0.7, 0.02), "log"),
        (maxfl.maxfl_exponential(0.7, 0.02), "exp"),
    ],
    ids=["relu", "log", "exponential"],
)
def test_rounds_agree_with_the_oracle(method, surrogate):
    def step(w, state, common, rho):  # noqa: ARG001
        return reference.maxfl_surrogate_round(w, *common, rho, 0.02, 0.7, surrogate), None

    assert_rounds(method, step)


@pytest.mark.parametrize("make", [maxfl.maxfl_log, maxfl.maxfl_exponential])
def test_a_very_high_temperature_is_fedavg(make):
    assert_is_fedavg(make(1e6, 0.0))
