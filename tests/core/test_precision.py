"""Products in another precision: what is rounded, and what never is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.model import Model

THIRD = np.float32(1 / 3)
"""Rounded to bfloat16 it is 0.333984375, the nearest number with 8 bits."""


def linear(seen=None):
    """A model of one weight, which tells what it is given."""

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
    with pytest.raises(maxfl.InputError, match="want one of platform, float32, bfloat16"):
        maxfl.with_precision(linear(), "float8")


def test_a_federation_learns_in_bfloat16(small):
    model = maxfl.mlp(4, (6,), 3, dropout=0.0)
    training = maxfl.Training(rounds=3, cohort=4, local_steps=3, batch_size=4)
    full, low = (
        maxfl.simulate(small, maxfl.with_precision(model, p), maxfl.maxfl(), training)
        for p in ("platform", "bfloat16")
    )
    assert all(a.dtype == np.float32 for a in jax.tree.leaves(low.params))
    np.testing.assert_array_equal(full.asked.client, low.asked.client)
    for a, b in zip(jax.tree.leaves(full.params), jax.tree.leaves(low.params), strict=True):
        assert (a != b).any(), "products were rounded"
        np.testing.assert_allclose(a, b, atol=0.05)
