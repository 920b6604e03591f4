"""What adapters of other libraries' models are tried on."""

import jax
import numpy as np

X = np.random.default_rng(0).normal(2, 3, (8, 4)).astype(np.float32)


def check_batch_norm(model, variables, statistics, kernel, eps, *, momentum=0.9):
    """One training step of BatchNorm before a dense layer, against NumPy; return the new state."""
    mean, var = (np.asarray(a) for a in statistics(variables.state))
    outputs, state = jax.jit(model.training_outputs)(variables, X, jax.random.key(1))
    assert jax.tree.structure(state) == jax.tree.structure(variables.state)
    np.testing.assert_allclose(
        outputs, (X - X.mean(0)) / np.sqrt(X.var(0) + eps) @ kernel, atol=1e-4
    )
    new_mean, new_var = statistics(state)
    np.testing.assert_allclose(new_mean, momentum * mean + (1 - momentum) * X.mean(0), atol=1e-5)
    np.testing.assert_allclose(new_var, momentum * var + (1 - momentum) * X.var(0), atol=1e-4)
    return state
