"""One model on all clients in one pass: a big matrix product and a sum per client."""

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.federation import Decoding, Samples
from maxfl.core.model import Model, Params
from maxfl.engine.collectives import add_up
from maxfl.engine.layout import CLIENT
from maxfl.engine.local import Score, decode, sample_losses


def owners(samples: Samples) -> Array:
    """The client that each sample belongs to, int32[total]."""
    sizes = jnp.diff(samples.offsets)
    return jnp.repeat(jnp.arange(len(sizes)), sizes, total_repeat_length=len(samples.y))


def evaluate(
    model: Model,
    decoding: Decoding,
    samples: Samples,
    rows: int,
    owner: Array,
    params: Params,
) -> Score:
    """Mean loss and accuracy of one model on every client's samples, float32[K] each.

    So many ``rows`` go through the model at once. Runs under ``shard_map``: the devices along the
    client axis take turns with the chunks.
    """
    total, clients = len(samples.y), len(samples.offsets) - 1
    size = min(rows, total)
    devices = jax.lax.axis_size(CLIENT)

    def chunk(i: Array, sums: Score) -> Score:
        position = (i * devices + jax.lax.axis_index(CLIENT)) * size
        # Near the end of the arrays the window slides back and the mask skips what was counted.
        window = jnp.minimum(position, total - size)
        fresh = window + jnp.arange(size) >= position
        x = jax.lax.dynamic_slice_in_dim(samples.x, window, size)
        y = jax.lax.dynamic_slice_in_dim(samples.y, window, size)
        k = jax.lax.dynamic_slice_in_dim(owner, window, size)
        losses, hits = sample_losses(model, params, decode(decoding, x), y)
        return Score(
            sums.loss.at[k].add(jnp.where(fresh, losses, 0.0), indices_are_sorted=True),
            sums.accuracy.at[k].add(jnp.where(fresh, hits, 0.0), indices_are_sorted=True),
        )

    zeros = jnp.zeros(clients, jnp.float32)
    turns = -(-total // (size * devices))
    sums = add_up(jax.lax.fori_loop(0, turns, chunk, Score(zeros, zeros)))
    counts = jnp.diff(samples.offsets)
    return Score(sums.loss / counts, sums.accuracy / counts)
