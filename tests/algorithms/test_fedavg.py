"""FedAvg: a round of two clients by hand, many rounds against the oracle."""

import numpy as np
import pytest

import maxfl
from maxfl.core.algorithm import WeightedSum, average
from support.oracle_maxfl import assert_many_rounds
from support.two_clients import after


def test_by_hand():
    # Mean Δ = (0.025, −0.025), and w = 0 − mean Δ.
    w, run = after(maxfl.fedavg())
    assert w == pytest.approx(-0.025, rel=1e-6)
    np.testing.assert_allclose(run.server.params, [[-0.025, 0.025]], rtol=1e-6)


def test_by_size():
    # Client 1 twice as large: (Δ₀ + 2Δ₁)/3 = (0.05, −0.05).
    clients = [([[1.0]], [0]), ([[2.0]] * 2, [1] * 2)]
    w, _ = after(maxfl.fedavg(by_size=1), clients=clients)
    assert w == pytest.approx(-0.05, rel=1e-6)


def test_average_works_on_numpy_arrays_too():
    total = WeightedSum({"w": np.array([2.0, 4.0])}, np.float64(0.5))
    np.testing.assert_allclose(average(total, 0.5)["w"], [2.0, 4.0])
    np.testing.assert_array_equal(average(total._replace(weight=np.float64(0)))["w"], [0.0, 0.0])


@pytest.mark.parametrize(
    "participation", [maxfl.everyone(), maxfl.opt_out(2)], ids=lambda p: p.rule
)
def test_many_rounds_agree_with_the_oracle(participation):
    assert_many_rounds(maxfl.fedavg(), participation)
