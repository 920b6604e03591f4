"""One round of one configuration: ask a cohort, train its clients, take the server's step."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.aggregators import Rule, combine
from maxfl.core.algorithm import Server, Total
from maxfl.core.participation import answers, sample, willing
from maxfl.core.prng import Purpose, key
from maxfl.core.server_optimizers import take_step
from maxfl.engine.client_state import remember
from maxfl.engine.client_update import Visit, visit
from maxfl.engine.collectives import add_up, gather, share_out
from maxfl.engine.evaluation import evaluate
from maxfl.engine.layout import CLIENT
from maxfl.engine.spec import Asked, Setup, Spec, State


def all_losses(setup: Setup, server: Server) -> Array:
    """F_k(w) of all K clients, float32[K]."""
    spec, data, rows = setup.spec, setup.data, setup.spec.layout.rows.everyone
    score = evaluate(spec.model, data.decoding, data.train, rows, setup.owner, server.params)
    return score.loss


def watched_losses(setup: Setup, server: Server) -> Any:
    """F_k(w) of all K clients if the participation rule needs them in every round, else ()."""
    return all_losses(setup, server) if setup.spec.watches else ()


def run_round(setup: Setup, round_: Array, state: State, losses: Any) -> tuple[State, Any, Asked]:
    """Run round ``round_`` (counted from 0) from a state and its ``watched_losses``."""
    client, sampled = _ask(setup, round_, losses)
    state, asked = train_cohort(setup, round_, state, losses, client, sampled)
    return state, watched_losses(setup, state.server), asked


def train_cohort(
    setup: Setup, round_: Array, state: State, losses: Any, client: Array, sampled: Array
) -> tuple[State, Asked]:
    """Train a cohort, given by its clients' places int[m] and which of them are real, bool[m]."""
    spec, numbers = setup.spec, setup.numbers
    absence = key(numbers.seed, Purpose.UNAVAILABLE, round_)
    reached = sampled & answers(absence, numbers.presence, setup.number(client))
    seen = _visit_all(spec, partial(visit, setup, round_, state, losses), client, reached)
    total, cohort = seen.total, seen.report
    if spec.robust is not Rule.MEAN:
        total = combine(spec.robust, numbers.limits, seen.update, cohort.weight)
    direction, kept = spec.algorithm.server(numbers.hyper, state.server, total, cohort)
    params, optimiser = take_step(
        spec.optimiser, numbers.rates, numbers.server_lr, direction, state.server.params,
        state.optimiser,
    )  # fmt: skip
    memory = remember(state.memory, client, cohort.took_part, seen.memory)
    # Momentum, or a projection, would move what nobody worked on.
    anybody = cohort.took_part.any()
    server, optimiser = jax.tree.map(
        lambda new, old: jnp.where(anybody, new, old),
        (Server(params, kept), optimiser),
        (state.server, state.optimiser),
    )
    state = State(server, memory, optimiser)
    return state, Asked(cohort.client, sampled, cohort.took_part, cohort.weight)


def _ask(setup: Setup, round_: Array, losses: Any) -> tuple[Array, Array]:
    """Sample the cohort: client numbers int[m], and which of them are real."""
    spec, numbers = setup.spec, setup.numbers
    available = jnp.ones(spec.seen, bool)
    if spec.watches:
        wants = willing(spec.rule, numbers.presence, round_, losses, setup.requirement)
        available = (wants | setup.lies if spec.attack else wants)[: spec.seen]
    return sample(key(numbers.seed, Purpose.SAMPLING, round_), available, spec.cohort)


def _visit_all(spec: Spec, visit: partial[Visit], client: Array, asked: Array) -> Visit:
    """Visit the cohort: this device takes its share, a few clients at once, and sums stream.

    What is not summed has a leading axis m, in the order of the cohort.
    """
    devices, width = jax.lax.axis_size(CLIENT), spec.layout.clients_at_once
    turns = -(-spec.cohort // (devices * width))
    # Placeholders at the end are never asked, so they take no part and cost no training.
    own_clients, own_asked = (share_out(a, turns, width) for a in (client, asked))

    def turn(total: Total, chunk: tuple[Array, Array]) -> tuple[Total, Visit]:
        if width == 1:  # no batch axis of one, which would hide plain matrix products
            seen = visit(chunk[0][0], chunk[1][0])
            sums, rest = seen.total, jax.tree.map(lambda a: a[None], seen._replace(total=()))
        else:
            many = jax.vmap(visit)(*chunk)
            sums, rest = jax.tree.map(lambda a: a.sum(0), many.total), many._replace(total=())
        return jax.tree.map(jnp.add, total, sums), rest

    shapes = jax.eval_shape(visit, own_clients[0, 0], own_asked[0, 0]).total
    zero = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    total, rest = jax.lax.scan(turn, zero, (own_clients, own_asked))
    gathered = jax.tree.map(lambda leaf: leaf[: spec.cohort], gather(rest))
    return gathered._replace(total=add_up(total))
