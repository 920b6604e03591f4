"""One round of one configuration: sample a cohort, train its clients, take the server's step."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from maxfl.core.aggregators import aggregate
from maxfl.core.algorithm import Pytree, Server, WeightedSum, difference, trained
from maxfl.core.model import Params
from maxfl.core.participation import responds, sample, willing
from maxfl.core.portfolio import (
    PortfolioState,
    add_per_model,
    next_state,
    start_anew,
    sum_per_model,
    vacancy,
)
from maxfl.core.prng import Purpose, key
from maxfl.core.schedules import scheduled
from maxfl.core.server_optimizers import take_step
from maxfl.engine.client_state import write_states
from maxfl.engine.client_update import ClientReply, client_update, recall
from maxfl.engine.collectives import all_gather, all_sum, map_clients, map_models, scatter
from maxfl.engine.evaluation import Score, client_score, evaluate
from maxfl.engine.layout import CLIENT
from maxfl.engine.minibatches import Task
from maxfl.engine.spec import Spec
from maxfl.engine.state import CohortRecord, Measured, ModelStep, RoundContext, RoundRecord, State
from maxfl.utils.tracing import trace_once


def score_everyone(context: RoundContext, state: State, task: Task) -> Score:
    """Measure the global model on a task's samples of all n clients, float32[n] each.

    Of a portfolio all models are measured, float32[models, n]. Where clients keep the model's state
    for themselves, each has another model.
    """
    layout = context.spec.layout
    if context.spec.has_portfolio:
        measure = partial(evaluate, task, layout.eval_batch.everyone)
        return map_models(layout, measure, state.server.params)
    if not context.spec.model.keep_local:
        return evaluate(task, layout.eval_batch.everyone, state.server.params)

    def score(slot: Array) -> Score:
        server, _ = recall(context.spec, state, slot)
        return client_score(task, layout.eval_batch.client, slot, server.params)

    return map_clients(score, len(context.requirement), layout.parallel_clients)


def measure_everyone(context: RoundContext, state: State) -> Measured:
    """Let all n clients measure the model on the data that they judge by, float32[n] each.

    Of a portfolio they measure all models, float32[models, n]; then they ``pick``.
    """
    return context.measured(score_everyone(context, state, context.judging_task))


def measure_if_needed(context: RoundContext, state: State) -> Any:
    """Let all K clients measure the model if the participation rule asks it in every round."""
    return measure_everyone(context, state) if context.spec.measures_everyone else ()


def run_round(
    context: RoundContext, round_: Array, state: State, measured: Any
) -> tuple[State, Any, RoundRecord]:
    """Run round ``round_`` (counted from 0) from a state, ``measure_if_needed`` of it."""
    if context.spec.has_portfolio:
        state, measured = start_vacant_model(context, state, measured)
        measured = context.pick(measured) if context.spec.measures_everyone else ()
    slots, sampled = _sample_cohort(context, round_, measured)
    state, record = train_cohort(context, round_, state, measured, slots, sampled)
    return state, measure_if_needed(context, state), record


def train_cohort(
    context: RoundContext, round_: Array, state: State, measured: Any, slots: Array, sampled: Array
) -> tuple[State, RoundRecord]:
    """Train a cohort, given by its clients' slots int[m] and which of them are real, bool[m].

    ``measured`` is of the model that each client picks, where there are several.
    """
    spec, hparams = context.spec, context.hparams
    absence = key(hparams.seed, Purpose.UNAVAILABLE, round_)
    reached = sampled & responds(absence, hparams.participation, context.client_id(slots))
    update = trace_once(partial(client_update, context, round_, state, measured))
    replies = _update_all(spec, update, slots, reached)
    cohort = replies.report
    server, opt_state = _take_server_step(context, round_, state, replies)
    client_states = write_states(
        state.client_states, slots, cohort.participated, replies.client_state
    )
    step = _measure_step(context, state.server.params, server.params)
    record = CohortRecord(
        cohort.client_id, sampled, cohort.participated, cohort.weight, replies.model
    )
    portfolio = _count_picks(state.portfolio, replies) if spec.has_portfolio else ()
    return State(server, client_states, opt_state, portfolio), RoundRecord(record, step)


def start_vacant_model(
    context: RoundContext, state: State, measured: Any = ()
) -> tuple[State, Any]:
    """Return the state, and what is measured of all models, with a vacant model started anew."""
    vacant = vacancy(context.hparams.portfolio, state.portfolio)
    models = state.server.params, state.opt_state, measured
    params, opt_state, measured = start_anew(vacant, state.portfolio, models)
    server = state.server._replace(params=params)
    return state._replace(server=server, opt_state=opt_state), measured


def _count_picks(state: PortfolioState, replies: ClientReply) -> PortfolioState:
    """Return what the server knows of a portfolio after a round."""
    cohort = replies.report
    gap = cohort.cost - cohort.requirement
    is_unmet = cohort.participated & (gap > 0)
    clients, unmet = (
        sum_per_model(state.idle, who, replies.model) for who in (cohort.participated, is_unmet)
    )
    gaps = sum_per_model(jnp.zeros(len(clients)), jnp.where(is_unmet, gap, 0.0), replies.model)
    return next_state(state, clients, unmet, gaps)


def _take_server_step(
    context: RoundContext, round_: Array, state: State, replies: ClientReply
) -> tuple[Server, Pytree]:
    """Return the server after a round, and what its optimizer keeps."""
    spec, hparams, cohort = context.spec, context.hparams, replies.report

    def move(params: Params, opt_state: Pytree, total: WeightedSum) -> tuple[Server, Pytree]:
        direction, server_state = spec.algorithm.server_update(
            hparams.algorithm, Server(params, state.server.state), total, cohort
        )
        rate = scheduled(spec.server_schedule, hparams.server_schedule, hparams.server_lr, round_)
        moved = take_step(
            spec.server_optimizer, hparams.server_optimizer, rate, direction, params, opt_state
        )
        # Momentum, or a projection, would move what nobody worked on, or nobody has a weight in.
        # What the method keeps goes on in the latter case, or it could never find weights that are
        # seen.
        somebody = cohort.participated.any()
        params, opt_state = jax.tree.map(
            partial(jnp.where, somebody & (total.weight > 0)), moved, (params, opt_state)
        )
        method_state = jax.tree.map(partial(jnp.where, somebody), server_state, state.server.state)
        return Server(params, method_state), opt_state

    if spec.has_portfolio:  # a model each, and one state for all
        move = jax.vmap(move, out_axes=(Server(0, None), 0))
    return move(state.server.params, state.opt_state, _totals(context, replies))


def _totals(context: RoundContext, replies: ClientReply) -> WeightedSum:
    """Return the sums that the server sees, of each model where there are several."""
    spec, hparams, weight = context.spec, context.hparams, replies.report.weight
    if not spec.gathers_updates:
        return replies.total
    if not spec.has_portfolio:
        return aggregate(spec.aggregator, hparams.aggregator, replies.update, weight)
    of_model = replies.model == jnp.arange(spec.models)[:, None]
    # One after another: each needs copies of all updates.
    rule = partial(aggregate, spec.aggregator, hparams.aggregator, replies.update)
    return jax.lax.map(rule, jnp.where(of_model, weight, 0.0))


def _measure_step(context: RoundContext, old: Params, new: Params) -> ModelStep:
    """Measure the server's step, of several models over all that the configuration has."""
    old, new = trained(old), trained(new)
    if context.spec.has_portfolio:
        exists = jnp.arange(context.spec.models) < context.hparams.portfolio.models
        old, new = jax.tree.map(
            lambda a: jnp.where(exists.reshape(-1, *[1] * (a.ndim - 1)), a, 0.0), (old, new)
        )
    return ModelStep(optax.tree.norm(difference(new, old)), optax.tree.norm(new))


def _sample_cohort(context: RoundContext, round_: Array, measured: Any) -> tuple[Array, Array]:
    """Sample the cohort: clients int[m], and which of them are real."""
    spec, hparams = context.spec, context.hparams
    available = jnp.ones(spec.seen, bool)
    if spec.measures_everyone:
        cost = context.cost(measured)
        wants = willing(
            spec.participation, hparams.participation, round_, cost, context.requirement
        )
        available = (wants | context.is_byzantine if spec.attacked else wants)[: spec.seen]
    return sample(key(hparams.seed, Purpose.SAMPLING, round_), available, spec.cohort)


def _update_all(
    spec: Spec, update: Callable[[Array, Array], ClientReply], slots: Array, reached: Array
) -> ClientReply:
    """Let the cohort train: this device takes its share, a few at once, and sums stream.

    What is not summed has a leading axis m, in the order of the cohort.
    """
    devices, width = jax.lax.axis_size(CLIENT), spec.layout.parallel_clients
    turns = -(-spec.cohort // (devices * width))
    # Placeholders at the end are never reached, so they do not participate and cost no training.
    share = scatter(slots, turns, width), scatter(reached, turns, width)

    def turn(total: WeightedSum, chunk: tuple[Array, Array]) -> tuple[WeightedSum, ClientReply]:
        if width == 1:  # no batch axis of one, which would hide plain matrix multiplications
            reply = update(chunk[0][0], chunk[1][0])
            sums, rest = reply.total, jax.tree.map(lambda a: a[None], reply._replace(total=()))
        else:
            reply = jax.vmap(update)(*chunk)
            sums, rest = reply.total, reply._replace(total=())
        if spec.has_portfolio:
            return add_per_model(total, sums, reply.model), rest
        if width > 1:
            sums = jax.tree.map(lambda a: a.sum(0), sums)
        return jax.tree.map(jnp.add, total, sums), rest

    shapes = jax.eval_shape(update, share[0][0, 0], share[1][0, 0]).total
    axes = (spec.models,) if spec.has_portfolio else ()
    zero = jax.tree.map(lambda a: jnp.zeros((*axes, *a.shape), a.dtype), shapes)
    total, rest = jax.lax.scan(turn, zero, share)
    gathered = jax.tree.map(lambda leaf: leaf[: spec.cohort], all_gather(rest))
    return gathered._replace(total=all_sum(total))
