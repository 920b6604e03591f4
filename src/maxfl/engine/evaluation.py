"""One model on all clients in one pass: a big matrix multiplication and a sum per client."""

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.federation import Samples
from maxfl.core.model import Params
from maxfl.engine.collectives import all_sum
from maxfl.engine.layout import CLIENT
from maxfl.engine.local import Score, Task, sample_losses, scale_inputs


def owners(samples: Samples) -> Array:
    """Return the client that each sample belongs to, int32[total]."""
    sizes = jnp.diff(samples.offsets)
    return jnp.repeat(jnp.arange(len(sizes)), sizes, total_repeat_length=len(samples.y))


def evaluate(task: Task, chunk_size: int, owner: Array, params: Params) -> Score:
    """Compute mean loss and accuracy of one model on every client's samples, float32[K] each.

    ``chunk_size`` samples go through the model at once. Runs under ``shard_map``: the devices along
    the client axis take turns with the chunks.
    """
    samples = task.samples
    total, clients = len(samples.y), len(samples.offsets) - 1
    size = min(chunk_size, total)
    devices = jax.lax.axis_size(CLIENT)

    def chunk(i: Array, sums: Score) -> Score:
        position = (i * devices + jax.lax.axis_index(CLIENT)) * size
        # Near the end of the arrays the window slides back and the mask skips what was counted.
        window = jnp.minimum(position, total - size)
        fresh = window + jnp.arange(size) >= position
        x = jax.lax.dynamic_slice_in_dim(samples.x, window, size)
        y = jax.lax.dynamic_slice_in_dim(samples.y, window, size)
        k = jax.lax.dynamic_slice_in_dim(owner, window, size)
        losses, hits = sample_losses(task.model, params, scale_inputs(task.input_scaling, x), y)
        return Score(
            sums.loss.at[k].add(jnp.where(fresh, losses, 0.0), indices_are_sorted=True),
            sums.accuracy.at[k].add(jnp.where(fresh, hits, 0.0), indices_are_sorted=True),
        )

    zeros = jnp.zeros(clients, jnp.float32)
    turns = -(-total // (size * devices))
    sums = all_sum(jax.lax.fori_loop(0, turns, chunk, Score(zeros, zeros)))
    counts = jnp.diff(samples.offsets)
    return Score(sums.loss / counts, sums.accuracy / counts)
