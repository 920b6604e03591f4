"""State that nobody takes is found in a model's programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.checks.state import check_state_is_taken, check_state_moves
from support import batch_norm


def shapes(model):
    """Return shapes of parameters, of two samples of four features, and of a key."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    return jax.eval_shape(model.init, key), jax.ShapeDtypeStruct((2, 4), jnp.float32), key


def dropped(v, x, key=None):
    """Apply a BatchNorm, and drop its new statistics, as a careless wrapper does."""
    found = batch_norm.apply(v, x, key)
    return found if key is None else found[0]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.checkpoint])
def test_statistics_among_the_parameters_that_nobody_renews_are_refused(wrap):
    inner = wrap(lambda v, x, key: dropped(v, x, key))
    model = maxfl.Model(
        lambda key: tuple(batch_norm.init(key)),
        lambda p, x, key=None: inner(maxfl.Variables(*p), x, key),
    )
    with pytest.raises(maxfl.InputError, match=r"state in training mode that nobody takes.*mean"):
        check_state_is_taken(model, *shapes(model))


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.checkpoint])
def test_statistics_that_apply_closes_over_are_refused(wrap, array):
    state = jax.tree.map(array, batch_norm.init(None).state)
    inner = wrap(lambda p, x, key: dropped(maxfl.Variables(p, state), x, key))
    model = maxfl.Model(
        lambda key: batch_norm.init(key).params, lambda p, x, key=None: inner(p, x, key)
    )
    with pytest.raises(maxfl.InputError, match="an array that apply closes over"):
        check_state_is_taken(model, *shapes(model))


def test_what_only_evaluation_reads_is_no_state():
    """A temperature that scales logits in evaluation mode, or a constant, is nobody's mistake."""
    scale = jnp.array([2.0, 2.0])
    model = maxfl.Model(
        lambda key: jax.random.normal(key, (4, 2)),
        lambda w, x, key=None: x @ w * scale if key is None else x @ w,
    )
    check_state_is_taken(model, *shapes(model))


def test_state_that_never_changes_is_refused():
    def frozen_mode(v, x, key=None):
        outputs = batch_norm.apply(v, x)
        return outputs if key is None else (outputs, v.state)

    model = maxfl.Model(batch_norm.init, frozen_mode)
    with pytest.raises(maxfl.InputError, match="returns its state unchanged in training mode"):
        check_state_moves(model, *shapes(model))


def test_state_may_become_constant():
    def ready(v, x, key=None):
        found = batch_norm.apply(v, x, key)
        return found if key is None else (found[0], {**found[1], "var": 1.0})

    model = maxfl.Model(batch_norm.init, ready)
    check_state_moves(model, *shapes(model))
