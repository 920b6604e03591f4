"""Minibatches: what a client draws from its own data, and the gradient on it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.federation import InputScaling, Samples
from maxfl.core.model import Model, Params, Variables, model_inputs
from maxfl.core.prng import batch_key, dropout_key


class Task(NamedTuple):
    """A model, and the samples of all clients that it is trained or measured on.

    Attributes:
        model: The model.
        input_scaling: From stored features to its input.
        samples: Of all clients.
        frozen: The model's parameters that nobody trains; () where it has none.
    """

    model: Model
    input_scaling: InputScaling
    samples: Samples
    frozen: Any = ()

    def inputs(self, x: Array) -> Array:
        """Return the model's input of stored features."""
        return model_inputs(self.model, self.input_scaling, x)


class Minibatches(NamedTuple):
    """The minibatches of one client in a round.

    Attributes:
        client: Its slot in the samples.
        key: Of all of its draws in the round.
        size: b, or the largest b of a sweep.
        used: b of this configuration, where it may be smaller: then only the first so many samples
            count, the same ones that a minibatch of that size has.
        flips: Whether labels are reversed, y → classes − 1 − y: those of a Byzantine client.
        classes: Number of classes, where labels are flipped.
    """

    client: Array
    key: Array
    size: int
    used: Array | None = None
    flips: Array | None = None
    classes: Any = None


def draw_rows(key: Array, count: int, size: Array) -> Array:
    """Draw ``count`` row numbers below ``size``, int32[count], uniform to within size/2³².

    One draw of bits and a remainder: half the work of ``jax.random.randint``, whose second draw
    would take away a bias that no client is large enough to show.
    """
    bits = jax.random.bits(key, (count,), jnp.uint32)
    return (bits % size.astype(jnp.uint32)).astype(jnp.int32)


def batch_gradient(
    task: Task, minibatches: Minibatches, params: Params, draw: Array, scale: Any = 1.0
) -> Params:
    """Compute ``scale`` times the gradient of the mean loss on a client's minibatch ``draw``.

    The minibatch is drawn with replacement, so a client of any size, one sample or ten thousand,
    gives batches of one shape without padding. Of ``Variables``, the gradient's state is how far
    the model's state falls, old − new, whatever the scale.
    """
    samples, size, used = task.samples, minibatches.size, minibatches.used
    start, end = samples.offsets[minibatches.client], samples.offsets[minibatches.client + 1]
    rows = start + draw_rows(batch_key(minibatches.key, draw), size, end - start)
    x, y = task.inputs(samples.x[rows]), samples.y[rows]
    if minibatches.flips is not None:
        y = jnp.where(minibatches.flips, minibatches.classes - 1 - y, y)

    def scaled_loss(w: Params) -> tuple[Array, Any]:
        now = Variables(w, params.state) if isinstance(params, Variables) else w
        key = dropout_key(minibatches.key, draw)
        outputs, state = task.model.training_outputs(now, x, key, task.frozen)
        losses = task.model.loss(outputs, y)
        if used is None:
            return scale * losses.mean(), state
        return scale * jnp.where(jnp.arange(size) < used, losses, 0.0).sum() / used, state

    if not isinstance(params, Variables):
        return jax.grad(scaled_loss, has_aux=True)(params)[0]
    gradient, state = jax.grad(scaled_loss, has_aux=True)(params.params)
    return Variables(gradient, jax.tree.map(jnp.subtract, params.state, state))
