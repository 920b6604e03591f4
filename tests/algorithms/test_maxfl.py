"""MaxFL: a round of two clients by hand, many rounds against the oracle."""

import numpy as np
import pytest

import maxfl
from support import small
from support.oracle_maxfl import assert_many_rounds
from support.two_clients import after


def test_by_hand():
    # ρ₀ = ln 2: gap 0, q₀ = ¼. ρ₁ = ln 2 − ln 3: gap ln 3, s = ¾, q₁ = 3/16.
    # Σ qΔ = ¼(−0.05) + 3/16(0.1) = 0.00625; Σ q + ε = 7/16 + 1/16 = ½; w = ∓0.0125.
    _, run = after(maxfl.maxfl(epsilon=1 / 16), requirement=np.log([2, 2 / 3]))
    np.testing.assert_allclose(run.server.params, [[-0.0125, 0.0125]], rtol=1e-5)


def test_equal_gaps_and_no_epsilon_are_fedavg():
    w, _ = after(maxfl.maxfl(epsilon=0.0), requirement=(0.4, 0.4))
    assert w == pytest.approx(after(maxfl.fedavg())[0], rel=1e-6)


def test_a_very_high_temperature_is_fedavg():
    w, _ = after(maxfl.maxfl(temperature=1e6, epsilon=0.0), requirement=(0.1, 3.0))
    assert w == pytest.approx(after(maxfl.fedavg())[0], rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 1e-3])
@pytest.mark.parametrize("rho", [-1e4, 1e4])
def test_all_weights_underflowing_leaves_the_model(epsilon, rho):
    # Gaps of about ±1e4 make every q exactly 0.
    w, _ = after(maxfl.maxfl(epsilon=epsilon), requirement=(rho, rho))
    assert w == 0
    rule = maxfl.custom(lambda federation, _: [rho] * federation.clients, steps=5)
    with pytest.warns(maxfl.TrainingWarning, match="no client had a weight above 0 in rounds 1"):
        history = small.simulate(maxfl.maxfl(epsilon=epsilon), requirement=rule)
    assert history.cohorts.participated.all()
    assert (history.cohorts.weight == 0).all()
    losses = history.evaluation.judging_loss
    np.testing.assert_array_equal(losses, np.broadcast_to(losses[:, :1], losses.shape))


@pytest.mark.parametrize(
    "participation", [maxfl.everyone(), maxfl.opt_out(2), maxfl.decline(2)], ids=lambda p: p.rule
)
def test_many_rounds_agree_with_the_oracle(participation):
    assert_many_rounds(maxfl.maxfl(0.7, 0.02), participation)
