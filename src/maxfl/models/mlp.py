"""The multi-layer perceptron of the paper."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.losses import Loss, cross_entropy
from maxfl.core.model import LocalSteps, Model, Scaling, scale_inputs
from maxfl.models.arguments import check_dropout, check_widths
from maxfl.models.fitting import ModelEntry, fit_features
from maxfl.models.gpu.support import most_perceptron_steps
from maxfl.models.layers import (
    Layer,
    dense,
    drop,
    drop_by,
    dropout_decisions,
    init_dense,
    survivors,
)
from maxfl.utils.errors import check_count

PAPER = (64, 30)
"""Units of its hidden layers."""

Layers = tuple[Layer, ...]


def mlp(
    inputs: int | Sequence[int] | None = None,
    hidden: Sequence[int] = PAPER,
    classes: int | None = None,
    dropout: float = 0.5,
    loss: Loss | None = None,
) -> Model:
    """Return a multi-layer perceptron with ReLU, and dropout after the first hidden layer.

    Weights and biases start uniform in ±1/√inputs, as in the framework that the paper used.
    Cached, so that equal arguments give one model and one compiled program. ``mlp((64, 30))``, or
    ``mlp(hidden=(64, 30))``, takes the numbers of features and outputs from the federation that it
    is trained on, and ``mlp(784, (64, 30), 10)`` has its own.

    Args:
        inputs: Number of features; inputs of any shape are flattened. A list means ``hidden``.
        hidden: Units of the hidden layers.
        classes: Number of outputs: a logit per class, or one per predicted number.
        dropout: Share of the first hidden layer's units dropped in training, at least 0 and
            below 1.
        loss: What it is trained on, see ``maxfl.losses``; by default cross-entropy, or what goes
            with the federation's labels where sizes are taken from it.
    """
    if hidden is PAPER and isinstance(inputs, Sequence):
        hidden, inputs = inputs, None
    rate = check_dropout(dropout)
    widths = check_widths("hidden", hidden, "the units of each hidden layer")
    if inputs is None and classes is None:
        return MLP.unsized(loss, hidden=widths, dropout=rate)
    MLP.refuse_half(inputs=inputs, classes=classes)
    check_count("inputs", inputs, least=1)
    check_count("classes", classes, least=1)
    return _mlp((inputs, *widths, classes), rate, loss or cross_entropy)


@functools.cache
def _mlp(widths: tuple[int, ...], dropout: float, loss: Loss) -> Model:
    """Return the model itself, one for each set of checked arguments."""

    def init(key: Array) -> Layers:
        keys = jax.random.split(key, len(widths) - 1)
        return tuple(init_dense(k, n, m) for k, n, m in zip(keys, widths, widths[1:], strict=False))

    name = "mlp" if len(widths) > 2 else "logistic"
    apply = _Perceptron(dropout)
    return Model(init, apply, loss, name=f"{name} {'-'.join(map(str, widths))}")


@dataclass(frozen=True)
class _Perceptron:
    """What a multi-layer perceptron computes, and several of its local steps at once on a GPU."""

    dropout: float

    def __call__(self, params: Layers, x: Array, key: Array | None = None) -> Array:
        """Compute outputs; with a key, in training mode."""
        return _outputs(params, x, lambda h: drop(key, h, self.dropout))

    @property
    def survivors(self) -> int:
        """Of 256 units of the first hidden layer, those that are not dropped."""
        return survivors(self.dropout)

    def most_steps(self, params: Layers, loss: Loss, batch: int) -> int:
        """Return how many steps are taken at once; 0 without a kernel for them."""
        is_usual = loss is cross_entropy and isinstance(params, tuple)
        return most_perceptron_steps(batch, *jax.tree.leaves(params)) if is_usual else 0

    def take_steps(self, params: Layers, steps: LocalSteps) -> Layers:
        """Take steps on cross-entropy, with the dropout that each step's key draws."""
        from maxfl.models.gpu import perceptron as gpu

        count, batch = steps.y.shape
        units = [layer.bias.size for layer in params]
        outputs = jax.ShapeDtypeStruct((batch, units[-1]), jnp.float32)
        jax.eval_shape(cross_entropy, outputs, steps.y[0])  # refuses labels of another type
        form = gpu.Form(tuple(units), self.survivors, count, batch)

        def decide(key: Array) -> Array:
            return dropout_decisions(key, (batch, units[0]))

        drops = len(units) > 1 and self.survivors < 256
        decisions = jax.vmap(decide)(steps.keys) if drops else jnp.zeros(count, jnp.uint8)
        batches = gpu.Batches(steps.y.astype(jnp.int32), decisions, steps.coefficients)
        leaves, structure = jax.tree.flatten(params)
        take = gpu.local_steps(form, partial(self._one_by_one, structure))
        found = take(steps.stored, steps.input_scaling, *batches, *leaves)
        return jax.tree.unflatten(structure, found)

    def _one_by_one(
        self,
        structure: Any,
        stored: Array,
        scaling: Scaling,
        y: Array,
        decisions: Array,
        coefficients: Array,
        *leaves: Array,
    ) -> tuple[Array, ...]:
        """Take the steps in JAX: for methods that differentiate through them."""
        x = scale_inputs(scaling, stored)

        def dropped(r: Array, h: Array) -> Array:
            return h if self.survivors == 256 else drop_by(decisions[r], h, self.dropout)

        def step(r: Array, params: Layers) -> Layers:
            def loss(params: Layers) -> Array:
                outputs = _outputs(params, x[r], partial(dropped, r))
                return (coefficients * cross_entropy(outputs, y[r])).sum()

            return jax.tree.map(jnp.add, params, jax.grad(loss)(params))

        params = jax.lax.fori_loop(0, len(y), step, jax.tree.unflatten(structure, leaves))
        return tuple(jax.tree.leaves(params))


def _outputs(params: Layers, x: Array, dropped: Callable[[Array], Array]) -> Array:
    """Compute outputs, with what a function makes of the first hidden layer."""
    h = x.reshape(len(x), -1)
    for depth, layer in enumerate(params[:-1]):
        h = jax.nn.relu(dense(layer, h))
        h = dropped(h) if depth == 0 else h
    return dense(params[-1], h)


MLP = ModelEntry("mlp", mlp, fit_features)
