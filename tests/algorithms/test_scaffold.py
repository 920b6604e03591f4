"""SCAFFOLD: two rounds by hand, rounds of both options against the oracle."""

import numpy as np
import pytest

import maxfl
from support import oracle_methods as reference
from support.oracle_runs import assert_rounds, trained
from support.two_clients import after, first_of, gradients


def test_by_hand():
    # Round 1 has no control variates: FedAvg. Then c_k = g_k and c = (−½ + 1)/2 = ¼. In round 2
    # client k steps along g_k(w) + c − c_k, both by the mean of g_k(w) + c − c_k.
    w, run = after(maxfl.scaffold())
    assert w == pytest.approx(-0.025)
    assert float(run.server.state.c[0, 0]) == pytest.approx(0.25)
    np.testing.assert_allclose(first_of(run.client_states), [-0.5, 1.0], rtol=1e-6)
    w, run = after(maxfl.scaffold(), rounds=2)
    g = np.array(gradients(-0.025))
    assert w == pytest.approx(-0.025 - 0.1 * g.mean(), rel=1e-5)
    steps = g + 0.25 - np.array([-0.5, 1.0])
    renewed = np.array([-0.5, 1.0]) - 0.25 + steps  # c_k − c + Δ/(τη)
    assert float(run.server.state.c[0, 0]) == pytest.approx(renewed.mean(), rel=1e-5)


@pytest.mark.parametrize(
    ("method", "option"), [(maxfl.scaffold(), 2), (maxfl.scaffold_1(), 1)], ids=["II", "I"]
)
def test_rounds_agree_with_the_oracle(method, option):
    def step(w, state, common, rho):  # noqa: ARG001
        c, controls = state or (reference.zeros_like(w), {})
        w, c, controls = reference.scaffold_round(w, *common, c, controls, option)
        return w, (c, controls)

    assert_rounds(method, step)


def test_it_meets_the_same_clients_and_requirements_as_another_method():
    ours, theirs = trained(maxfl.scaffold()), trained(maxfl.fedprox(0.7))
    np.testing.assert_array_equal(ours.cohorts.client_id, theirs.cohorts.client_id)
    np.testing.assert_array_equal(ours.thresholds.judging, theirs.thresholds.judging)
