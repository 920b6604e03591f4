"""The residual network: parameters as published, and its shortcuts."""

import jax
import jax.numpy as jnp
import numpy as np

import maxfl
from maxfl.models.convolution import convolve
from maxfl.models.normalisation import group_norm


def test_parameters_as_published():
    model = maxfl.resnet((32, 32, 3), 10)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    assert len(shapes.blocks) == 9
    count = sum(a.size for a in jax.tree.leaves(shapes))
    assert count == 269_722  # 0.27 million of ResNet-20, He et al., 2016, table 6
    x = jax.ShapeDtypeStruct((5, 32, 32, 3), jnp.float32)
    assert jax.eval_shape(model.outputs, shapes, x).shape == (5, 10)


def test_blocks_that_add_nothing_leave_the_shortcut():
    model = maxfl.resnet((8, 8), 2, blocks=1, width=2, groups=1)
    params = model.init(jax.random.key(0))
    nothing = jax.tree.map(jnp.zeros_like, params.blocks)
    x = np.random.default_rng(0).normal(size=(3, 8, 8)).astype(np.float32)
    found = jax.jit(model.outputs)(params._replace(blocks=nothing), x)
    first = group_norm(params.stem.scaling, convolve(x[..., None], params.stem.weight), 1)
    kept = np.maximum(first, 0)[:, ::4, ::4].mean((1, 2))  # of six other channels nothing
    expected = kept @ params.output.weight[:2] + params.output.bias
    np.testing.assert_allclose(found, expected, atol=1e-5)
