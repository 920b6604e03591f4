"""MW-Fed: two rounds by hand, rounds against the oracle, FedAvg as a limit."""

import numpy as np
import pytest

import maxfl
from support import oracle_methods as reference
from support.oracle_runs import assert_is_fedavg, assert_rounds
from support.two_clients import after, gradients


def test_by_hand():
    # Client 1's requirement is never met: its weight is 4 after a round, 16 after two.
    w, run = after(maxfl.mwfed(), requirement=(1.0, 0.1))
    assert w == pytest.approx(-0.025)
    np.testing.assert_allclose(np.exp(run.server.state), [1, 4], rtol=1e-5)
    w, run = after(maxfl.mwfed(), rounds=2, requirement=(1.0, 0.1))
    g = gradients(-0.025)
    assert w == pytest.approx(-0.025 - 0.1 * (0.25 * g[0] + g[1]) / 1.25, rel=1e-5)
    np.testing.assert_allclose(np.exp(run.server.state), [1, 16], rtol=1e-5)


def test_rounds_agree_with_the_oracle():
    def step(w, state, common, rho):
        logs = np.zeros(len(common[0])) if state is None else state
        return reference.mwfed_round(w, *common, logs, rho[: len(common[0])], factor=4.0)

    assert_rounds(maxfl.mwfed(), step)


def test_a_factor_of_1_is_fedavg():
    assert_is_fedavg(maxfl.mwfed(1.0))


def test_a_factor_below_1_is_refused():
    with pytest.raises(maxfl.InputError, match=r"algorithm\.factor"):
        maxfl.mwfed(0.5)
