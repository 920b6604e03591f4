"""One round of one configuration: ask a cohort, train its clients, take the server's step."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.algorithms.contract import Client, Cohort, Pytree, Server, Total, Work
from maxfl.evaluation import evaluate
from maxfl.layout import CLIENT
from maxfl.local import batch_gradient, client_score
from maxfl.participation import answers, sample, willing
from maxfl.randomness import Purpose, key
from maxfl.spec import Asked, Setup, Spec, State


class Visit(NamedTuple):
    """What comes back from one asked client: its weighted update, its report, its memory."""

    total: Total
    report: Cohort
    memory: Pytree


def all_losses(setup: Setup, server: Server) -> Array:
    """F_k(w) of all K clients, float32[K]."""
    model, data = setup.spec.model, setup.data
    return evaluate(model, data.decoding, data.train, setup.owner, server.params, CLIENT).loss


def watched_losses(setup: Setup, server: Server) -> Any:
    """F_k(w) of all K clients if the participation rule needs them in every round, else ()."""
    return all_losses(setup, server) if setup.spec.watches else ()


def run_round(setup: Setup, round_: Array, state: State, losses: Any) -> tuple[State, Any, Asked]:
    """Run round ``round_`` (counted from 0) from a state and its ``watched_losses``."""
    client, sampled, reached = _ask(setup, round_, losses)
    visit = partial(_visit, setup, round_, state, losses)
    total, cohort, memory = _visit_all(setup.spec, visit, client, reached)
    numbers, old = setup.numbers, state.server
    direction, kept = setup.spec.algorithm.server(numbers.hyper, old, total, cohort)
    params = jax.tree.map(lambda w, d: w - numbers.server_lr * d, old.params, direction)
    server = Server(params, kept)
    state = State(server, _remember(state.memory, memory, cohort, setup.spec.seen))
    asked = Asked(client, sampled, cohort.took_part, cohort.weight)
    return state, watched_losses(setup, server), asked


def _ask(setup: Setup, round_: Array, losses: Any) -> tuple[Array, Array, Array]:
    """Sample the cohort: client numbers int[m], which of them are real, which can be reached."""
    spec, numbers = setup.spec, setup.numbers
    available = jnp.ones(spec.seen, bool)
    if spec.watches:
        wants = willing(spec.rule, numbers.presence, round_, losses, setup.requirement)
        available = wants[: spec.seen]
    sampling = key(numbers.seed, Purpose.SAMPLING, round_)
    client, sampled = sample(sampling, available, spec.cohort)
    absence = key(numbers.seed, Purpose.UNAVAILABLE, round_)
    return client, sampled, sampled & answers(absence, numbers.presence, client)


def _visit(
    setup: Setup, round_: Array, state: State, losses: Any, client: Array, asked: Array
) -> Visit:
    """Let one asked client measure the model, decide, and train."""
    spec, data, _, numbers, requirement = setup
    server, rho = state.server, requirement[client]
    loss = (
        losses[client]
        if spec.watches
        else client_score(spec.model, data.decoding, data.train, client, server.params).loss
    )
    took_part = asked & willing(spec.rule, numbers.presence, round_, loss, rho)
    size = data.train.offsets[client + 1] - data.train.offsets[client]
    who = Client(client, size, loss, rho)
    draws = key(numbers.seed, Purpose.TRAINING, round_, client)
    gradient = partial(
        batch_gradient, spec.model, data.decoding, data.train, client, spec.batch_size, draws
    )
    work = Work(gradient, spec.local_steps, numbers.local_lr)
    memory = jax.tree.map(lambda leaf: leaf[client], state.memory)

    def train() -> tuple[Total, Pytree]:
        weight = spec.algorithm.weight(numbers.hyper, server, who)
        weight = jnp.where(weight > 0, weight, 0.0)  # a client without a requirement has NaN
        update, kept = spec.algorithm.local(numbers.hyper, server, memory, who, work)
        # No weight means no influence, even of an update that overflowed: 0 · ∞ is not 0.
        weighted = jax.tree.map(lambda u: jnp.where(weight > 0, weight * u, 0.0), update)
        return Total(weighted, weight), kept

    def stay_away() -> tuple[Total, Pytree]:
        nothing, _ = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(train))
        return nothing, memory

    total, kept = jax.lax.cond(took_part, train, stay_away)
    return Visit(total, Cohort(client, took_part, loss, rho, total.weight), kept)


def _visit_all(
    spec: Spec, visit: partial[Visit], client: Array, asked: Array
) -> tuple[Total, Cohort, Pytree]:
    """Visit the cohort: this device takes its share, a few clients at once, and sums stream."""
    devices, width = jax.lax.axis_size(CLIENT), spec.layout.clients_at_once
    turns = -(-spec.cohort // (devices * width))
    padding = (0, turns * width * devices - spec.cohort)
    shape = (devices, turns, width)
    # Placeholders at the end are never asked, so they take no part and cost no training.
    mine = jax.lax.axis_index(CLIENT)
    own_clients = jnp.pad(client, padding).reshape(shape)[mine]
    own_asked = jnp.pad(asked, padding).reshape(shape)[mine]

    def turn(total: Total, chunk: tuple[Array, Array]) -> tuple[Total, tuple[Cohort, Pytree]]:
        if width == 1:  # no batch axis of one, which would hide plain matrix products
            seen = visit(chunk[0][0], chunk[1][0])
            sums, rest = seen.total, jax.tree.map(lambda a: a[None], (seen.report, seen.memory))
        else:
            many = jax.vmap(visit)(*chunk)
            sums, rest = jax.tree.map(lambda a: a.sum(0), many.total), (many.report, many.memory)
        return jax.tree.map(jnp.add, total, sums), rest

    shapes = jax.eval_shape(visit, own_clients[0, 0], own_asked[0, 0]).total
    zero = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    total, rest = jax.lax.scan(turn, zero, (own_clients, own_asked))

    def gather(leaf: Array) -> Array:
        """[turns, width, ...] of every device to [m, ...], in the order of the cohort."""
        everyone = jax.lax.all_gather(leaf, CLIENT)
        return everyone.reshape(-1, *leaf.shape[2:])[: spec.cohort]

    cohort, memory = jax.tree.map(gather, rest)
    return jax.lax.psum(total, CLIENT), cohort, memory


def _remember(memory: Pytree, fresh: Pytree, cohort: Cohort, seen: int) -> Pytree:
    """Write back the memory of the clients that took part; others keep theirs."""
    rows = jnp.where(cohort.took_part, cohort.client, seen)  # out of range: dropped
    return jax.tree.map(lambda old, new: old.at[rows].set(new, mode="drop"), memory, fresh)
