"""Minibatches: what a client draws from its own data, and the gradient on it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from maxfl.core.federation import InputScaling, Samples
from maxfl.core.model import Model, Params
from maxfl.core.prng import batch_key, dropout_key


class Task(NamedTuple):
    """A model, and the samples of all clients that it is trained or measured on."""

    model: Model
    input_scaling: InputScaling
    samples: Samples


class Minibatches(NamedTuple):
    """The minibatches of one client in a round.

    Attributes:
        client: Its slot in the samples.
        key: Of all of its draws in the round.
        size: b, or the largest b of a sweep.
        used: b of this configuration, where it may be smaller: then only the first so many samples
            count, the same ones that a minibatch of that size has.
        flips: Whether labels are reversed, y → classes − 1 − y: those of a Byzantine client.
        classes: Number of labels.
    """

    client: Array
    key: Array
    size: int
    used: Array | None = None
    flips: Array | None = None
    classes: int = 0


def scale_inputs(input_scaling: InputScaling, x: Array) -> Array:
    """Return the model's input of stored features, float32."""
    return (x.astype(jnp.float32) - input_scaling.shift) * input_scaling.scale


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
    gives batches of one shape without padding.
    """
    samples, size, used = task.samples, minibatches.size, minibatches.used
    start, end = samples.offsets[minibatches.client], samples.offsets[minibatches.client + 1]
    rows = start + draw_rows(batch_key(minibatches.key, draw), size, end - start)
    x, y = scale_inputs(task.input_scaling, samples.x[rows]), samples.y[rows]
    if minibatches.flips is not None:
        y = jnp.where(minibatches.flips, minibatches.classes - 1 - y, y)

    def scaled_loss(w: Params) -> Array:
        logits = task.model.apply(w, x, dropout_key(minibatches.key, draw))
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        if used is None:
            return scale * losses.mean()
        return scale * jnp.where(jnp.arange(size) < used, losses, 0.0).sum() / used

    return jax.grad(scaled_loss)(params)
