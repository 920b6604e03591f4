"""What a client does with its own data: draw a minibatch, take its gradient, measure its loss."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from maxfl.core.federation import InputScaling, Samples
from maxfl.core.model import Model, Params
from maxfl.core.prng import batch_key, dropout_key
from maxfl.engine.running_sum import add, start_sum, value_of


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


class Score(NamedTuple):
    """Loss and accuracy of one model on samples of one client, or of each of K clients.

    Means; or, on the way to them, running sums of losses and hits.
    """

    loss: Any
    accuracy: Any


def scale_inputs(input_scaling: InputScaling, x: Array) -> Array:
    """Return the model's input of stored features, float32."""
    return (x.astype(jnp.float32) - input_scaling.shift) * input_scaling.scale


def sample_losses(model: Model, params: Params, x: Array, y: Array) -> tuple[Array, Array]:
    """Compute cross-entropy and correctness of each sample, float32[n], in evaluation mode."""
    logits = model.apply(params, x)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
    return losses, (jnp.argmax(logits, axis=-1) == y).astype(jnp.float32)


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


def client_score(task: Task, chunk_size: int, client: Array, params: Params) -> Score:
    """Measure a model on all samples of the client in a slot, ``chunk_size`` of them at once.

    A loop of as many chunks as the client fills: time follows its size and nothing is padded.
    """
    samples = task.samples
    start, end = samples.offsets[client], samples.offsets[client + 1]
    total = len(samples.y)
    size = min(chunk_size, total)

    def chunk(carry: tuple[Array, Score]) -> tuple[Array, Score]:
        position, sums = carry
        # Near the end of the arrays the window slides back and the mask skips what was counted.
        window = jnp.minimum(position, total - size)
        row = window + jnp.arange(size)
        counts = (row >= position) & (row < end)
        x = jax.lax.dynamic_slice_in_dim(samples.x, window, size)
        y = jax.lax.dynamic_slice_in_dim(samples.y, window, size)
        losses, hits = sample_losses(task.model, params, scale_inputs(task.input_scaling, x), y)
        return position + size, Score(
            add(sums.loss, jnp.where(counts, losses, 0.0).sum()),
            add(sums.accuracy, jnp.where(counts, hits, 0.0).sum()),
        )

    begin = start, Score(start_sum(), start_sum())
    _, sums = jax.lax.while_loop(lambda c: c[0] < end, chunk, begin)
    count = end - start
    return Score(value_of(sums.loss) / count, value_of(sums.accuracy) / count)
