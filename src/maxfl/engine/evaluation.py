"""Loss and metrics of a model: on all clients in one pass, or on one client."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.federation import Samples
from maxfl.core.model import Params
from maxfl.engine.collectives import all_sum
from maxfl.engine.layout import CLIENT
from maxfl.engine.minibatches import Task
from maxfl.utils.running_sum import RunningSum, add, start_sum, value_of

LANES, LANE_LENGTH = 32, 64
"""Numbers that the values of a chunk are added into, at least, and values in each, at most."""
FEW = 128
"""Clients of a chunk for which that is done."""


class Score(NamedTuple):
    """Loss and metrics of one model on samples of one client, or of each of K clients.

    Means; or, on the way to them, numbers of each sample, or running sums.

    Attributes:
        loss: The model's.
        metrics: The model's, in their order.
    """

    loss: Any
    metrics: tuple[Any, ...]


def score_samples(task: Task, params: Params, x: Array, y: Array) -> Score:
    """Compute loss and metrics of each sample, float32[n], in evaluation mode; x as stored."""
    outputs = task.model.outputs(params, task.inputs(x), task.frozen)
    named = task.model.named_metrics
    return Score(
        task.model.loss(outputs, y), tuple(metric.function(outputs, y) for _, metric in named)
    )


def _finish(task: Task, sums: Score, count: Array) -> Score:
    """Return means of sums over so many samples, and what metrics make of them."""
    loss, means = sums.loss / count, [total / count for total in sums.metrics]
    pairs = zip(means, task.model.named_metrics, strict=True)
    return Score(
        loss, tuple(m if metric.of_mean is None else metric.of_mean(m) for m, (_, metric) in pairs)
    )


def owners(samples: Samples, rows: Array) -> Array:
    """Return the client that each of some rows belongs to, int32; K for rows behind the last's.

    A binary search: a table of all rows takes 30 kernels, and their time to compile. The search is
    a loop on a CPU, which compiles soonest, and on an accelerator one kernel.
    """

    def search(method: str, rows: Array) -> Array:
        found = jnp.searchsorted(samples.offsets[1:], rows, side="right", method=method)
        return found.astype(jnp.int32)

    loop, unrolled = partial(search, "scan"), partial(search, "scan_unrolled")
    return jax.lax.platform_dependent(rows, cpu=loop, default=unrolled)


def evaluate(task: Task, chunk_size: int, params: Params) -> Score:
    """Compute loss and metrics of one model on every client's samples, float32[K] each.

    A big matrix multiplication, and a sum per client; ``chunk_size`` samples go through the model
    at once. Runs under ``shard_map``: the devices along the client axis take turns with the chunks.
    """
    samples = task.samples
    total, clients = len(samples.y), len(samples.offsets) - 1
    size = min(chunk_size, total)
    devices = jax.lax.axis_size(CLIENT)

    def chunk(i: Array, sums: Score) -> Score:
        position = (i * devices + jax.lax.axis_index(CLIENT)) * size
        # Near the end of the arrays the window slides back and the mask skips what was counted.
        window = jnp.minimum(position, total - size)
        rows = window + jnp.arange(size)
        fresh = rows >= position
        x = jax.lax.dynamic_slice_in_dim(samples.x, window, size)
        y = jax.lax.dynamic_slice_in_dim(samples.y, window, size)
        scores, owner = score_samples(task, params, x, y), owners(samples, rows)
        return _add(
            lambda so_far, v: _add_per_client(owner, so_far, jnp.where(fresh, v, 0.0)), sums, scores
        )

    # Room behind the last client, for a chunk that begins with its samples.
    zero = start_sum((clients + size,))
    turns = -(-total // (size * devices))
    sums = jax.lax.fori_loop(0, turns, chunk, _start(task, zero))
    return _finish(task, all_sum(_values(sums, clients)), jnp.diff(samples.offsets))


def _add_per_client(owner: Array, sums: RunningSum, values: Array) -> RunningSum:
    """Add a chunk's values, float32[n], to the sums of the clients that they belong to.

    Owners are sorted and no client is empty, so the chunk's clients are n neighbours at most.
    """
    first, size = owner[0], len(values)
    of_chunk = _sum_chunk(owner - first, values)
    neighbours = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, first, size), sums)
    return jax.tree.map(
        lambda a, new: jax.lax.dynamic_update_slice_in_dim(a, new, first, 0),
        sums,
        add(neighbours, of_chunk),
    )


def _sum_chunk(local: Array, values: Array) -> Array:
    """Sum values by their clients' numbers within the chunk, which ascend from 0; float32[n].

    Values that are alike are rounded alike, so that the error of adding them one by one into one
    number grows with their count. So neighbours go to different numbers, which are added at the
    end. Where a chunk has many clients, all but one of them are small: there it is not worth it.
    """
    size = len(values)
    lanes = max(LANES, size // LANE_LENGTH)

    def spread() -> Array:
        sums = jnp.zeros((lanes, FEW), jnp.float32)
        sums = sums.at[jnp.arange(size) % lanes, local].add(values).sum(0)
        return jnp.zeros(size, jnp.float32).at[:FEW].set(sums)

    def plain() -> Array:
        return jnp.zeros(size, jnp.float32).at[local].add(values, indices_are_sorted=True)

    return plain() if size <= FEW else jax.lax.cond(local[-1] < FEW, spread, plain)


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
        scores = score_samples(task, params, x, y)
        return position + size, _add(
            lambda so_far, v: add(so_far, jnp.where(counts, v, 0.0).sum()), sums, scores
        )

    begin = start, _start(task, start_sum())
    _, sums = jax.lax.while_loop(lambda c: c[0] < end, chunk, begin)
    return _finish(task, _values(sums), end - start)


def _start(task: Task, zero: RunningSum) -> Score:
    """Return running sums of nothing."""
    return Score(zero, (zero,) * len(task.model.named_metrics))


def _add(function: Callable[[RunningSum, Array], RunningSum], sums: Score, values: Score) -> Score:
    """Add the values of samples to running sums by a function of both."""
    return Score(
        function(sums.loss, values.loss), tuple(map(function, sums.metrics, values.metrics))
    )


def _values(sums: Score, clients: int | None = None) -> Score:
    """Return what running sums have come to, of the first clients where there are several."""

    def value(total: RunningSum) -> Array:
        return value_of(total) if clients is None else value_of(total)[:clients]

    return Score(value(sums.loss), tuple(map(value, sums.metrics)))
