"""q-FFL: a round by hand and by Flower's code, rounds against the oracle, FedAvg as a limit."""

import numpy as np
import pytest

import maxfl
from support import oracle_methods as reference
from support.oracle_runs import assert_is_fedavg, assert_rounds
from support.two_clients import LN2, after


def test_by_hand():
    # D = ln 2 · g_k; h = ‖g_k‖² + ln 2/0.1, and ‖g₀‖² = ½, ‖g₁‖² = 2.
    w, _ = after(maxfl.qffl(q=1.0))
    assert w == pytest.approx(-LN2 * 0.5 / (2.5 + 20 * LN2), rel=1e-5)


@pytest.mark.extras
def test_it_agrees_with_flower():
    """One round of q-FedAvg by Flower's own code, where Flower is installed."""
    peer = pytest.importorskip("flwr.server.strategy.aggregate", reason="Flower not installed")
    q, rate = 2.0, 0.1
    w = np.zeros((1, 2))
    deltas, hs = [], []
    for delta in (np.array([[-0.05, 0.05]]), np.array([[0.1, -0.1]])):
        grads, loss = delta / rate, np.log(2)
        deltas.append([np.float_power(loss + 1e-10, q) * grads])
        norm = np.square(grads).sum()
        first = q * np.float_power(loss + 1e-10, q - 1) * norm
        hs.append(first + np.float_power(loss + 1e-10, q) / rate)
    theirs = peer.aggregate_qffl([w], deltas, hs)[0]
    ours, _ = after(maxfl.qffl(q))
    assert ours == pytest.approx(theirs[0, 0], rel=1e-5)


def test_rounds_agree_with_the_oracle():
    def step(w, state, common, rho):  # noqa: ARG001
        return reference.qffl_round(w, *common, q=2.0), None

    assert_rounds(maxfl.qffl(2.0), step)


def test_q_0_is_fedavg():
    assert_is_fedavg(maxfl.qffl(0.0))
