"""The weight, the objective and the metric, by hand and against JAX's own gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.core import appeal

GAPS = np.array([-1e4, -100.0, -20.0, -1.0, 0.0, 1.0, 20.0, 100.0, 1e4], np.float32)


@pytest.mark.parametrize("xp", [np, jnp])
def test_weight_by_hand(xp):
    # gap ln 3: s = 3/4, q = 3/16. Gap 0: q = 1/4. Symmetric.
    losses = xp.asarray([np.log(3), 0.0, -np.log(3)], dtype=xp.float32)
    np.testing.assert_allclose(appeal.weight(losses, 0.0), [3 / 16, 1 / 4, 3 / 16], rtol=1e-6)
    # The temperature divides the gap.
    np.testing.assert_allclose(appeal.weight(0.5 * losses, 0.0, 0.5), [3 / 16, 1 / 4, 3 / 16], 1e-6)


def test_plain_floats_work_as_on_a_client():
    assert appeal.weight(0.7, 0.7) == 0.25
    assert bool(appeal.satisfied(0.6, 0.7))


@pytest.mark.parametrize("xp", [np, jnp])
def test_extreme_gaps_give_numbers(xp):
    gaps = xp.asarray(GAPS)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        q, s = appeal.weight(gaps, 0.0), appeal.objective(gaps, 0.0)
    assert np.isfinite(q).all()
    assert np.isfinite(s).all()
    assert (np.asarray(q) <= 0.25).all()
    assert int(np.argmax(q)) == list(GAPS).index(0.0)


def test_weight_keeps_its_precision_far_from_the_requirement():
    exact = np.exp(-20.0) / (1 + np.exp(-20.0)) ** 2
    for gap in (20.0, -20.0):
        assert appeal.weight(jnp.float32(gap), 0.0) == pytest.approx(exact, rel=1e-5)


def test_a_lying_client_gets_no_weight():
    assert appeal.weight(20.0, 0.0) < 1e-6 * appeal.weight(0.1, 0.0)


def test_weighted_gradients_are_the_gradient_of_the_objective():
    rng = np.random.default_rng(0)
    targets = jnp.asarray(rng.normal(size=(5, 3)), jnp.float32)
    rho = jnp.asarray(rng.uniform(0.5, 3, size=5), jnp.float32)
    w = jnp.asarray(rng.normal(size=3), jnp.float32)

    def losses(w):
        return 0.5 * ((w - targets) ** 2).sum(1)

    whole = jax.grad(lambda w: appeal.objective(losses(w), rho).mean())(w)
    each = jax.jacobian(losses)(w)
    summed = (appeal.weight(losses(w), rho)[:, None] * each).mean(0)
    np.testing.assert_allclose(summed, whole, rtol=2e-6, atol=1e-7)


def test_gradient_is_right_at_a_gap_of_zero():
    slope = jax.grad(lambda loss: appeal.objective(loss, jnp.float32(1.0)))(jnp.float32(1.0))
    assert slope == pytest.approx(0.25)


def test_appeal_is_strict():
    loss, rho = np.array([0.9, 1.0, 1.1]), np.ones(3)
    np.testing.assert_array_equal(appeal.satisfied(loss, rho), [True, False, False])


def test_preferred_takes_the_global_model_only_where_satisfied():
    chosen = appeal.preferred(np.array([True, False]), np.array([0.9, 0.8]), np.array([0.5, 0.6]))
    np.testing.assert_allclose(chosen, [0.9, 0.6])
