"""What a client does with its own data: draw a minibatch, take its gradient, measure its loss."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from maxfl.core.federation import Decoding, Samples
from maxfl.core.model import Model, Params
from maxfl.core.prng import batch_key, dropout_key


class Score(NamedTuple):
    """Mean loss and accuracy of one model on samples of one client, or of each of K clients."""

    loss: Array
    accuracy: Array


def decode(decoding: Decoding, x: Array) -> Array:
    """Model input of stored features, float32."""
    return (x.astype(jnp.float32) - decoding.shift) * decoding.scale


def sample_losses(model: Model, params: Params, x: Array, y: Array) -> tuple[Array, Array]:
    """Cross-entropy and correctness of each sample, float32[n] each, in evaluation mode."""
    logits = model.apply(params, x)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
    return losses, (jnp.argmax(logits, axis=-1) == y).astype(jnp.float32)


def draw_rows(key: Array, count: int, size: Array) -> Array:
    """``count`` row numbers below ``size``, int32[count], uniform to within size/2³².

    One draw of bits and a remainder: half the work of ``jax.random.randint``, whose second draw
    would take away a bias that no client is large enough to show.
    """
    bits = jax.random.bits(key, (count,), jnp.uint32)
    return (bits % size.astype(jnp.uint32)).astype(jnp.int32)


def batch_gradient(
    model: Model,
    decoding: Decoding,
    train: Samples,
    client: Array,
    batch_size: int,
    key: Array,
    params: Params,
    draw: Array,
    scale: Any = 1.0,
    *,
    used: Array | None = None,
    reverse: Array | bool = False,
    classes: int = 0,
) -> Params:
    """``scale`` times the gradient of the mean loss on minibatch number ``draw`` of a client.

    With ``used``, only the first so many of its ``batch_size`` samples count: the same ones that a
    minibatch of that size has.

    With ``reverse``, of labels y → classes − 1 − y: those of a client that spoils the model.

    The minibatch is drawn with replacement, so a client of any size, one sample or ten thousand,
    gives batches of one shape without padding.
    """
    start, end = train.offsets[client], train.offsets[client + 1]
    rows = start + draw_rows(batch_key(key, draw), batch_size, end - start)
    x, y = decode(decoding, train.x[rows]), train.y[rows]
    if reverse is not False:
        y = jnp.where(reverse, classes - 1 - y, y)

    def scaled_loss(w: Params) -> Array:
        logits = model.apply(w, x, dropout_key(key, draw))
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        if used is None:
            return scale * losses.mean()
        return scale * jnp.where(jnp.arange(batch_size) < used, losses, 0.0).sum() / used

    return jax.grad(scaled_loss)(params)


def client_score(
    model: Model, decoding: Decoding, samples: Samples, rows: int, client: Array, params: Params
) -> Score:
    """Mean loss and accuracy of a model on all of one client's samples, so many rows at once.

    A loop of as many chunks as the client fills: time follows its size and nothing is padded.
    """
    start, end = samples.offsets[client], samples.offsets[client + 1]
    total = len(samples.y)
    size = min(rows, total)

    def chunk(carry: tuple[Array, Score]) -> tuple[Array, Score]:
        position, sums = carry
        # Near the end of the arrays the window slides back and the mask skips what was counted.
        window = jnp.minimum(position, total - size)
        place = window + jnp.arange(size)
        own = (place >= position) & (place < end)
        x = jax.lax.dynamic_slice_in_dim(samples.x, window, size)
        y = jax.lax.dynamic_slice_in_dim(samples.y, window, size)
        losses, hits = sample_losses(model, params, decode(decoding, x), y)
        return position + size, Score(
            sums.loss + jnp.where(own, losses, 0.0).sum(),
            sums.accuracy + jnp.where(own, hits, 0.0).sum(),
        )

    zero = jnp.zeros((), jnp.float32)
    _, sums = jax.lax.while_loop(lambda c: c[0] < end, chunk, (start, Score(zero, zero)))
    return Score(sums.loss / (end - start), sums.accuracy / (end - start))
