"""One client in a round: it measures the model, decides, trains, and answers, honestly or not."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.aggregators import Rule, clip_norm
from maxfl.core.algorithm import Client, Cohort, Pytree, Server, Total, Work, descend
from maxfl.core.attacks import corrupt
from maxfl.core.model import Params
from maxfl.core.participation import willing
from maxfl.core.prng import Purpose, key
from maxfl.engine.client_state import recall
from maxfl.engine.local import batch_gradient, client_score
from maxfl.engine.spec import Personal, Setup, State


class Visit(NamedTuple):
    """What comes back from one asked client.

    Attributes:
        total: Its weighted update and its weight (a Total), to be summed; only the weight where a
            robust rule wants the updates one by one.
        update: The update itself, where a robust rule wants it; else ().
        report: What the server sees of it beside the update.
        memory: What it keeps.
    """

    total: Any
    update: Pytree
    report: Cohort
    memory: Pytree


def visit(
    setup: Setup, round_: Array, state: State, losses: Any, client: Array, asked: Array
) -> Visit:
    """Visit one asked client, given by its place; ``losses`` are all clients', where known."""
    spec, numbers, server = setup.spec, setup.numbers, state.server
    who = _measure(setup, server, losses, client)
    wants = willing(spec.rule, numbers.presence, round_, who.loss, who.requirement)
    lies = setup.lies[who.number]
    took_part = asked & (wants | lies if spec.attack else wants)
    told = lie(setup, who)
    memory = recall(state.memory, client, spec.algorithm.memory(server.params))
    gathers = spec.robust is not Rule.MEAN

    def train() -> tuple[Total, Pytree, Pytree]:
        weight = spec.algorithm.weight(numbers.hyper, server, told)
        weight = jnp.where(weight > 0, weight, 0.0)  # a client without a requirement has NaN
        work = _work(setup, Purpose.TRAINING, round_, client)
        update, kept = spec.algorithm.local(numbers.hyper, server, memory, told, work)
        if spec.attack:
            noise = key(numbers.seed, Purpose.NOISE, round_, 0 if spec.collude else who.number)
            sent = corrupt(numbers.attack, noise, update)
            update = jax.tree.map(lambda lie, truth: jnp.where(lies, lie, truth), sent, update)
        if spec.clips:
            update = clip_norm(update, numbers.limits.clip)
        if gathers:
            return Total((), weight), update, kept
        # No weight means no influence, even of an update that overflowed: 0 · ∞ is not 0.
        weighted = jax.tree.map(lambda u: jnp.where(weight > 0, weight * u, 0.0), update)
        return Total(weighted, weight), (), kept

    def stay_away() -> tuple[Total, Pytree, Pytree]:
        total, update, _ = jax.tree.map(
            lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(train)
        )
        return total, update, memory

    if spec.layout.one_by_one:
        total, update, kept = jax.lax.cond(took_part, train, stay_away)
    else:  # vectorised, a cond would run both, on a copy of all data for each client
        total, update, kept = jax.tree.map(partial(jnp.where, took_part), train(), stay_away())
    report = Cohort(who.number, took_part, told.loss, who.requirement, total.weight)
    return Visit(total, update, report, kept)


def lie(setup: Setup, who: Client) -> Client:
    """What clients say of themselves: liars add to their losses."""
    if not setup.spec.attack:
        return who
    lies, more = setup.lies[who.number], setup.numbers.attack.inflation

    def told(loss: Array) -> Array:
        return jnp.where(lies, jnp.maximum(loss + more, 0.0), loss)

    return who._replace(loss=told(who.loss), tuned_loss=told(who.tuned_loss))


def personal_scores(setup: Setup, state: State, losses: Array, client: Array) -> Personal:
    """How the model that one client would use does on its own data."""
    spec, data = setup.spec, setup.data
    params = _personal_model(setup, state, losses[client], client)
    rows = spec.layout.rows.client
    train = client_score(spec.model, data.decoding, data.train, rows, client, params)
    test = client_score(spec.model, data.decoding, data.test, rows, client, params)
    return Personal(train.loss, test.loss, test.accuracy)


def _personal_model(setup: Setup, state: State, loss: Array, client: Array) -> Params:
    """The method's personal model, or the global one, then tuned where clients tune."""
    spec, server = setup.spec, state.server
    params = server.params
    if spec.algorithm.personal is not None:
        memory = recall(state.memory, client, spec.algorithm.memory(params))
        number, rho = setup.number(client), setup.requirement[client]
        who = Client(number, _size(setup, client), loss, loss, rho)
        work = _work(setup, Purpose.TUNING, 0, client)
        params = spec.algorithm.personal(setup.numbers.hyper, server, memory, who, work)
    return _tune(setup, client, params) if spec.tunes else params


def _measure(setup: Setup, server: Server, losses: Any, client: Array) -> Client:
    """What a client finds out about the model."""
    spec, data = setup.spec, setup.data
    rows = spec.layout.rows.client
    own = partial(client_score, spec.model, data.decoding, data.train, rows, client)
    loss = losses[client] if spec.watches else own(server.params).loss
    tuned = own(_tune(setup, client, server.params)).loss if spec.tunes else loss
    number, rho = setup.number(client), setup.requirement[client]
    return Client(number, _size(setup, client), loss, tuned, rho)


def _tune(setup: Setup, client: Array, params: Params) -> Params:
    """A few steps on the client's own training data, the same minibatches every time."""
    work = _work(setup, Purpose.TUNING, 0, client)

    def later(w: Params, r: Array, scale: Any = 1.0) -> Params:
        return work.gradient(w, r + 1, scale)  # number 0 is for the method's own adapting

    return descend(params, later, setup.numbers.tuning, work.learning_rate)


def _work(setup: Setup, purpose: Purpose, round_: Any, client: Array) -> Work:
    spec, data, numbers = setup.spec, setup.data, setup.numbers
    number = setup.number(client)
    draws = key(numbers.seed, purpose, round_, number)
    gradient = partial(
        batch_gradient, spec.model, data.decoding, data.train, client, spec.batch_size, draws
    )
    if spec.masks:
        gradient = partial(gradient, used=numbers.batch_size)
    if spec.flip_labels and purpose is Purpose.TRAINING:
        gradient = partial(gradient, reverse=setup.lies[number], classes=spec.classes)
    steps = numbers.local_steps if spec.local_steps is None else spec.local_steps
    return Work(gradient, steps, numbers.local_lr)


def _size(setup: Setup, client: Array) -> Array:
    offsets = setup.data.train.offsets
    return offsets[client + 1] - offsets[client]
