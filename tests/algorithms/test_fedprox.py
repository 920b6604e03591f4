"""FedProx: two steps by hand, rounds against the oracle, FedAvg as a limit."""

import pytest

import maxfl
from support import oracle_methods as reference
from support.oracle_runs import assert_is_fedavg, assert_rounds
from support.two_clients import after, gradients


def test_by_hand():
    # One step from the server's model feels no pull. Two steps of client 0: 0.05, then
    # −g₀(0.05) − μ 0.05; so for client 1 from −0.1.
    assert after(maxfl.fedprox(mu=3.0))[0] == pytest.approx(-0.025)
    w, _ = after(maxfl.fedprox(mu=3.0), steps=2)
    first = 0.05 - 0.1 * (gradients(0.05)[0] + 3 * 0.05)
    second = -0.1 - 0.1 * (gradients(-0.1)[1] + 3 * -0.1)
    assert w == pytest.approx((first + second) / 2, rel=1e-5)


def test_rounds_agree_with_the_oracle():
    def step(w, state, common, rho):  # noqa: ARG001
        return reference.fedprox_round(w, *common, mu=0.7), None

    assert_rounds(maxfl.fedprox(0.7), step)


def test_without_a_pull_it_is_fedavg():
    assert_is_fedavg(maxfl.fedprox(0.0))
