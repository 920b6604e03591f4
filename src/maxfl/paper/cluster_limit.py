"""How many clients any one model could satisfy: trained centrally on each union of clusters.

In the study of clusters, clients of a cluster are alike, so a model that satisfies as many as
possible is one for some union of the clusters. Training it centrally, on all data of that union at
once, leaves out everything that makes federated training hard; the best union's GM-Appeal is what a
federated method can hope for.
"""

from collections.abc import Sequence
from functools import partial
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from maxfl.core.algorithm import descend
from maxfl.core.appeal import satisfied
from maxfl.core.federation import Federation, InputScaling, Samples
from maxfl.core.model import Model, Params, scale_inputs
from maxfl.core.prng import Purpose, batch_key, dropout_key, key
from maxfl.engine.evaluation import owners, score_samples
from maxfl.engine.minibatches import Task, draw_rows

BATCH = 128
RATE = 0.1


class UnionModel(NamedTuple):
    """A model trained centrally on some clusters.

    Attributes:
        clusters: The clusters whose data it saw.
        seen: GM-Appeal among the seen clients, held-out reading, at its best.
        unseen: GM-Appeal among the unseen clients, at the same evaluation.
    """

    clusters: tuple[int, ...]
    seen: float
    unseen: float


def cluster_of(federation: Federation) -> NDArray[np.int64]:
    """Return the cluster of each client, int[K]: clients with the same labels are of one."""
    y, offsets = np.asarray(federation.train.y), federation.train.offsets
    labels = [tuple(np.unique(y[a:b])) for a, b in pairwise(offsets)]
    known = sorted(set(labels))
    return np.array([known.index(of_client) for of_client in labels])


Evaluations = list[NDArray[Any]]
"""Held-out losses of all clients, float[K], at every evaluation of a model."""


def evaluate_unions(
    federation: Federation, model: Model, seed: int, steps: Sequence[int]
) -> dict[tuple[int, ...], Evaluations]:
    """Train a model for every union of clusters, and return its held-out losses.

    Args:
        federation: Clients in clusters.
        model: What is trained.
        seed: Of the model's first weights and of the minibatches.
        steps: After how many steps the models are evaluated.
    """
    cluster = cluster_of(federation)
    seen_rows = federation.train.offsets[federation.seen]
    owner = np.repeat(cluster, federation.train_sizes)[:seen_rows]
    groups = range(int(cluster.max()) + 1)
    every = [u for size in groups for u in combinations(groups, size + 1)]
    rows = [np.flatnonzero(np.isin(owner, union)) for union in every]
    pooled = Pooled(
        # One length for all, so that one program trains every union.
        np.stack([np.resize(of_union, seen_rows) for of_union in rows]).astype(np.int32),
        np.array([len(of_union) for of_union in rows], np.int32),
    )
    data = jax.device_put((federation.train, federation.test, federation.input_scaling))
    first = model.init(key(seed, Purpose.INIT))
    params = jax.tree.map(lambda a: jnp.broadcast_to(a, (len(every), *a.shape)), first)
    draws = key(seed, Purpose.TRAINING)
    evaluations = []
    for before, after in pairwise((0, *steps)):
        params, losses = _advance(model, data, pooled, draws, before, after, params)
        evaluations.append(np.asarray(losses))
    return {union: [losses[u] for losses in evaluations] for u, union in enumerate(every)}


def at_best(
    union: tuple[int, ...], evaluations: Evaluations, thresholds: NDArray[Any], seen: int
) -> UnionModel:
    """Count whom a union's model satisfies, at its best evaluation.

    Args:
        union: The clusters that the model was trained on.
        evaluations: Held-out losses of all clients at every evaluation.
        thresholds: The loss that each client requires, float[K].
        seen: How many clients are seen; they come first.
    """
    by_evaluation = [np.asarray(satisfied(losses, thresholds)) for losses in evaluations]
    best = max(by_evaluation, key=lambda clients: float(clients[:seen].mean()))
    unseen = best[seen:]
    return UnionModel(
        union, float(best[:seen].mean()), float(unseen.mean()) if len(unseen) else np.nan
    )


class Pooled(NamedTuple):
    """The training rows of each union, int[U, rows], repeated to one length, and how many."""

    rows: Any
    count: Any


@partial(jax.jit, static_argnums=0)
def _advance(
    model: Model,
    data: tuple[Samples, Samples, InputScaling],
    pooled: Pooled,
    draws: Array,
    before: Array,
    after: Array,
    params: Params,
) -> tuple[Params, Array]:
    """Run steps ``before`` to ``after`` of SGD for every union; then evaluate all clients."""
    train, test, input_scaling = data
    test_owner, sizes = owners(test, jnp.arange(len(test.y))), jnp.diff(test.offsets)

    def one(union: tuple[Pooled, Params]) -> tuple[Params, Array]:
        (rows, count), start = union

        def gradient(w: Params, r: Array, scale: Array | float = 1.0) -> Params:
            drawn = rows[draw_rows(batch_key(draws, before + r), BATCH, count)]
            x, y = scale_inputs(input_scaling, train.x[drawn]), train.y[drawn]

            def scaled_loss(v: Params) -> Array:
                outputs, _ = model.training_outputs(v, x, dropout_key(draws, before + r))
                return scale * model.loss(outputs, y).mean()

            return jax.grad(scaled_loss)(w)

        trained = descend(start, gradient, after - before, jnp.float32(RATE))
        losses = score_samples(Task(model, input_scaling, test), trained, test.x, test.y).loss
        return trained, jnp.zeros(len(sizes)).at[test_owner].add(losses) / sizes

    if jax.default_backend() == "cpu":
        return jax.lax.map(one, (pooled, params))
    return jax.vmap(one)((pooled, params))
