"""The MLP of the paper: its shapes, its start, its dropout; products in another precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.model import Model, _drop
from support.small import MODEL, train


def test_shapes_and_start():
    model = maxfl.mlp(784, (64, 30), 62)
    params = model.init(jax.random.key(0))
    assert [p.weight.shape for p in params] == [(784, 64), (64, 30), (30, 62)]
    for layer, inputs in zip(params, (784, 64, 30), strict=True):
        bound = 1 / np.sqrt(inputs)
        assert abs(layer.weight).max() <= bound
        assert layer.weight.std() == pytest.approx(bound / np.sqrt(3), rel=0.1)
        assert layer.bias.std() == pytest.approx(bound / np.sqrt(3), rel=0.5)
    assert model.apply(params, jnp.zeros((5, 28, 28))).shape == (5, 62)


def test_equal_arguments_give_one_model():
    assert maxfl.mlp(4, (3,), 2) is maxfl.mlp(4, (3,), 2)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("units", [64, 6, 1])
def test_dropout_drops_its_share_and_keeps_the_mean(rate, units):
    h = _drop(jax.random.key(1), jnp.ones((40_000 // units, units)), rate)
    assert (h == 0).mean() == pytest.approx(rate, abs=0.012)
    assert h.mean() == pytest.approx(1, abs=0.06)
    assert len(np.unique(h)) == 2


def test_dropout_is_off_without_a_key():
    model = maxfl.mlp(4, (50,), 2, dropout=0.9)
    params, x = model.init(jax.random.key(0)), jnp.ones((3, 4))
    np.testing.assert_array_equal(model.apply(params, x), model.apply(params, x))
    drawn = [model.apply(params, x, jax.random.key(s)) for s in (1, 2)]
    assert (drawn[0] != drawn[1]).any()


@pytest.mark.parametrize("hidden", [3, (0,), (-2,), (2.5,), None])
def test_bad_widths_are_refused(hidden):
    with pytest.raises(maxfl.InputError, match="hidden"):
        maxfl.mlp(4, hidden, 2)
    assert maxfl.mlp(4, [3], 2) is maxfl.mlp(4, (3,), 2)


@pytest.mark.parametrize("rate", [1.0, -0.1])
def test_a_bad_rate_is_refused(rate):
    with pytest.raises(maxfl.InputError, match="dropout"):
        maxfl.mlp(4, (3,), 2, dropout=rate)


THIRD = np.float32(1 / 3)
"""Rounded to bfloat16 it is 0.333984375, the nearest number with 8 bits."""


def linear(seen=None):
    """Return a model of one weight, which notes the types that it is given."""

    def apply(w, x, key=None):  # noqa: ARG001
        if seen is not None:
            seen.append((w.dtype, x.dtype))
        return x @ w

    return Model(lambda key: jnp.full((1, 2), THIRD), apply)  # noqa: ARG005


def test_bfloat16_rounds_what_is_multiplied_and_nothing_else():
    seen = []
    low = maxfl.with_precision(linear(seen), "bfloat16")
    params = low.init(jax.random.key(0))
    assert params.dtype == jnp.float32
    logits = low.apply(params, jnp.ones((3, 1)))
    assert seen == [(jnp.bfloat16, jnp.bfloat16)]
    assert logits.dtype == jnp.float32
    np.testing.assert_array_equal(logits, np.full((3, 2), 0.333984375, np.float32))
    gradient = jax.grad(lambda w: low.apply(w, jnp.full((1, 1), 0.5)).sum())(params)
    assert gradient.dtype == jnp.float32
    np.testing.assert_array_equal(gradient, 0.5)


def test_float32_is_asked_of_every_product():
    full = maxfl.with_precision(linear(), "float32")
    params, x = full.init(jax.random.key(0)), jnp.ones((3, 1))
    step = jax.jit(jax.grad(lambda w: full.apply(w, x).sum()))
    products = [line for line in step.lower(params).as_text().splitlines() if "dot" in line]
    assert products
    assert all("HIGHEST" in line for line in products)


def test_one_program_for_equal_arguments_and_none_for_the_default():
    model = linear()
    assert maxfl.with_precision(model, "platform") is model
    assert maxfl.with_precision(model, "bfloat16") is maxfl.with_precision(model, "bfloat16")


def test_an_unknown_precision_is_refused():
    with pytest.raises(maxfl.InputError, match="expected one of platform, float32, bfloat16"):
        maxfl.with_precision(linear(), "float8")


def test_a_federation_learns_in_bfloat16():
    full, low = (
        train(maxfl.maxfl(), model=maxfl.with_precision(MODEL, p)) for p in ("platform", "bfloat16")
    )
    assert all(a.dtype == np.float32 for a in jax.tree.leaves(low.params))
    np.testing.assert_array_equal(full.cohorts.client_id, low.cohorts.client_id)
    for a, b in zip(jax.tree.leaves(full.params), jax.tree.leaves(low.params), strict=True):
        assert (a != b).any(), "products were rounded"
        np.testing.assert_allclose(a, b, atol=0.05)
