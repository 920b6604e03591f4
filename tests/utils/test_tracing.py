"""A function that is traced for its shapes and its values is traced once."""

import jax
import jax.numpy as jnp

from maxfl.utils.tracing import trace_once


def test_shapes_and_branches_share_a_trace():
    traced = []

    def run(x, wanted):
        @trace_once
        def double():
            traced.append(x.shape)
            return 2 * x

        shape = jax.eval_shape(double)
        return jax.lax.cond(wanted, double, lambda: jnp.zeros(shape.shape))

    found = jax.jit(run)(jnp.arange(3.0), True)
    assert found.tolist() == [0, 2, 4]
    assert len(traced) == 1
    assert "jit" not in str(jax.make_jaxpr(run)(jnp.arange(3.0), True))
