"""A round of a method with one client and no data, to be traced: what depends on what?"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from maxfl.core.algorithm import (
    Algorithm,
    Client,
    Cohort,
    LocalTask,
    Pytree,
    Server,
    WeightedSum,
)
from maxfl.core.model import Params
from maxfl.engine.experiment import as_arrays


class TrialGradient:
    """A gradient that is the model itself, and notes whether it is asked for many plain steps."""

    def __init__(self) -> None:
        self.descended = False

    def __call__(self, params: Params, *_: Any, **__: Any) -> Params:
        """Return the model."""
        return params

    def descend(self, params: Params, *_: Any) -> Params:
        """Return the model."""
        self.descended = True
        return params


class TrialRound(NamedTuple):
    """What a round gives: the client's weight, update and state, the server's step and state."""

    weight: Any
    update: Pytree
    client_state: Pytree
    direction: Params
    server_state: Pytree


def trial_client(loss: Any, *, by_metric: bool = False) -> Client:
    """Return a client of this loss, before and after fine-tuning, and of this metric if asked."""
    metric = loss if by_metric else None
    return Client(jnp.int32(0), jnp.int32(1), loss, loss, jnp.float32(1), metric, metric)


def trial_round(
    method: Algorithm,
    server: Server,
    start: Params,
    client: Client,
    *,
    cohort: int = 1,
    total_weight: Any = None,
    task: LocalTask | None = None,
) -> TrialRound:
    """Let a client train by gradients that are the model itself, and the server take its step.

    Args:
        method: With the numbers of its first configuration.
        server: As the client sees it.
        start: The model with which the client's state begins.
        client: Who trains.
        cohort: How many such clients the server sees.
        total_weight: Σ q_k, if it is not to be the client's weight.
        task: What the client does, if that is to be something else.
    """
    hparams = jax.tree.map(lambda a: jnp.float32(a.flat[0]), as_arrays(method.hparams))
    task = task or LocalTask(lambda w, *_, **__: w, jnp.int32(1), jnp.float32(1))
    weight = method.weight(hparams, server, client)
    update, client_state = method.client_update(
        hparams, server, method.init_client(start), client, task
    )
    row = client.client_id, True, client.loss, client.requirement, weight
    reports = Cohort(*(jnp.broadcast_to(value, cohort) for value in row))
    if client.metric_cost is not None:
        reports = reports._replace(metric_cost=jnp.broadcast_to(client.metric_cost, cohort))
    total = WeightedSum(update, weight if total_weight is None else total_weight)
    direction, server_state = method.server_update(hparams, server, total, reports)
    return TrialRound(weight, update, client_state, direction, server_state)
