"""A function that is evaluated by rules is the same function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core.primitives import sin_p

from maxfl.models.rewrite import Rewriter


def cosines(_equation, values):
    return [jnp.cos(values[0])]


BY_COSINES = Rewriter({sin_p: cosines})
X = jnp.arange(1.0, 4.0)


def in_a_loop(sin, x):
    return jax.lax.scan(lambda c, xi: (c + sin(xi), c * xi), 0.5, x, reverse=True)


def in_an_unbounded_loop(sin, x):
    return jax.lax.while_loop(lambda c: c[0] + sin(c[0]) < 5, lambda c: c + 1 + sin(x), x)


def in_a_branch(sin, x):
    return jax.lax.cond(x[0] > 0, lambda: sin(x), lambda: x)


def in_jit(sin, x):
    return jax.jit(lambda x: {"found": sin(x) * 2, "as it is": x})(x)


def in_a_checkpoint(sin, x):
    return jax.checkpoint(lambda x: sin(x) ** 2)(x)


@pytest.mark.parametrize(
    "function",
    [in_a_loop, in_an_unbounded_loop, in_a_branch, in_jit, in_a_checkpoint],
    ids=lambda f: f.__name__,
)
def test_rules_hold_inside(function):
    wanted = function(jnp.cos, X)
    found = BY_COSINES(lambda x: function(jnp.sin, x), (X,), (X,))
    jax.tree.map(np.testing.assert_array_equal, wanted, found)


def test_what_is_rewritten_can_be_differentiated_and_mapped():
    def rewritten(x):
        return BY_COSINES(lambda x: in_a_checkpoint(jnp.sin, x), (x,), (x,))

    found = jax.vmap(jax.grad(rewritten))(X)
    np.testing.assert_allclose(found, -np.sin(2 * X), rtol=1e-5)


def test_a_derivative_of_ones_own_is_kept():
    @jax.custom_jvp
    def straight(x):
        return jnp.sin(x)

    straight.defjvp(lambda primals, tangents: (straight(*primals), 7.0 * tangents[0]))
    value, slope = jax.value_and_grad(lambda x: BY_COSINES(straight, (x,), (x,)))(1.0)
    np.testing.assert_allclose(value, np.sin(1.0), rtol=1e-6)
    assert slope == 7


def test_what_no_rule_touches_is_bound_as_it_is():
    before = jax.make_jaxpr(jnp.linalg.norm)(X)
    after = jax.make_jaxpr(lambda x: BY_COSINES(jnp.linalg.norm, (x,), (x,)))(X)
    assert str(before) == str(after)
