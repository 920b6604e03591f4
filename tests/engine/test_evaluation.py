"""One model on all clients: sums of millions of samples, and chunks that clients share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import maxfl
from maxfl.core.checks.samples import client_offsets
from maxfl.core.federation import InputScaling, Samples
from maxfl.engine.evaluation import client_score, evaluate
from maxfl.engine.layout import CLIENT, SWEEP
from maxfl.engine.minibatches import Task

MODEL = maxfl.Model(lambda key: (), lambda params, x, key=None: jnp.stack([x, 0.3 * x - 1], 1))  # noqa: ARG005
"""Two logits of one number; no parameters."""


def losses_of(x, y):
    """Cross-entropy and hits of ``MODEL`` in float64."""
    logits = np.stack([x, 0.3 * x - 1], 1).astype(np.float64)
    losses = np.logaddexp(*logits.T) - logits[np.arange(len(y)), y]
    return losses, logits.argmax(1) == y


def make_samples(sizes, alike=False):
    rng = np.random.default_rng(0)
    total = int(np.sum(sizes))
    x = np.full(total, 0.7, np.float32) if alike else rng.exponential(2.0, total).astype(np.float32)
    y = rng.binomial(1, 0.0 if alike else 0.02, total).astype(np.int32)
    return Samples(x, y, client_offsets(sizes, "test"))


def on_two_devices(function, samples):
    mesh = Mesh(np.array(jax.devices()).reshape(1, -1), (SWEEP, CLIENT))
    everywhere = PartitionSpec()
    run = jax.shard_map(
        function, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False
    )
    return jax.tree.map(np.asarray, jax.jit(run)(samples))


def check(score, samples, **tolerance):
    for k, (begin, end) in enumerate(zip(samples.offsets[:-1], samples.offsets[1:], strict=True)):
        losses, hits = losses_of(samples.x[begin:end], samples.y[begin:end])
        assert score.loss[k] == pytest.approx(losses.mean(), **tolerance)
        assert score.metrics[0][k] == np.float32(hits.sum() / np.float32(end - begin))


def scores(samples, chunk_size):
    """The scores of all clients in one pass, and of the largest client by itself."""
    k = int(np.argmax(np.diff(samples.offsets)))

    def both(samples):
        task = Task(MODEL, InputScaling(), samples)
        return (
            evaluate(task, chunk_size, ()),
            client_score(task, chunk_size, jnp.int32(k), ()),
        )

    everyone, one = on_two_devices(both, samples)
    return everyone, jax.tree.map(lambda a: a[None], one), k


@pytest.mark.parametrize("chunk_size", [1, 7, 64, 10_000])
def test_clients_share_chunks(chunk_size):
    sizes = [1, 40, 3, 3, 1, 1, 200, 7, 1]
    samples = make_samples(sizes)
    everyone, one, k = scores(samples, chunk_size)
    check(everyone, samples, abs=1e-6)
    alone = Samples(
        samples.x[samples.offsets[k] : samples.offsets[k + 1]],
        samples.y[samples.offsets[k] : samples.offsets[k + 1]],
        client_offsets([sizes[k]], "test"),
    )
    check(one, alone, abs=1e-6)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize(
    "samples", [100_000, pytest.param(30_000_000, marks=pytest.mark.processes)]
)
def test_a_client_of_millions_of_samples(samples, alike):
    """One by one in float32, the mean loss of 3·10⁷ samples would be wrong by five per cent.

    Losses that are alike are rounded alike, and their errors do not cancel.
    """
    data = make_samples([5, samples], alike)
    for chunk_size in (1024, 4096):
        everyone, one, k = scores(data, chunk_size)
        check(everyone, data, rel=1e-6)
        assert one.loss[0] == pytest.approx(everyone.loss[k], rel=1e-6)
        assert one.metrics[0][0] == everyone.metrics[0][k]
