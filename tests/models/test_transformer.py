"""The transformer: parameters by hand, later tokens change nothing before them, both outputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl

SMALL = {"width": 8, "depth": 1, "heads": 2}


def test_parameters_by_hand():
    v, t, w = 80, 20, 128
    block = (4 * w * w + 4 * w) + (8 * w * w + 5 * w) + 4 * w  # attention, dense, two norms
    expected = v * w + t * w + 2 * block + 2 * w + (w * v + v)
    shapes = jax.eval_shape(maxfl.transformer(v, t).init, jax.random.key(0))
    assert sum(a.size for a in jax.tree.leaves(shapes)) == expected


def test_later_tokens_change_nothing_before_them():
    model = maxfl.transformer(5, 4, **SMALL)
    params = model.init(jax.random.key(0))
    x = jnp.array([[1, 2, 0, 4], [3, 3, 1, 0]])
    apply = jax.jit(model.apply)
    logits, changed = apply(params, x), apply(params, x.at[:, 2].set(2))
    assert model.tokens
    assert logits.shape == (2, 4, 5)
    assert model.loss == maxfl.losses.next_token(0)
    np.testing.assert_allclose(changed[:, :2], logits[:, :2], atol=1e-6)
    assert (abs(changed[:, 2:] - logits[:, 2:]) > 1e-4).any((0, 2)).all()
    last = maxfl.transformer(5, 4, classes=5, **SMALL)
    assert last.loss is maxfl.losses.cross_entropy
    np.testing.assert_allclose(jax.jit(last.outputs)(params, x), logits[:, -1], atol=1e-6)
    assert (apply(params, x, jax.random.key(1)) != logits).any(), "dropout"
    shorter = jax.eval_shape(model.outputs, params, x[:, :3])
    assert shorter.shape == (2, 3, 5)


def test_longer_sequences_are_refused():
    model = maxfl.transformer(5, 4, **SMALL)
    params = jax.eval_shape(model.init, jax.random.key(0))
    with pytest.raises(maxfl.InputError, match=r"5 tokens, but .* length = 4"):
        jax.eval_shape(model.outputs, params, jnp.zeros((2, 5), jnp.int32))
