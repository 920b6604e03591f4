"""One client in a round: it measures the model, decides, trains, and replies, honestly or not."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.aggregators import clip_update
from maxfl.core.algorithm import (
    Client,
    Cohort,
    LocalTask,
    Pytree,
    Server,
    WeightedSum,
    descend,
    difference,
    model_part,
    with_model_part,
)
from maxfl.core.attacks import corrupt
from maxfl.core.model import Params
from maxfl.core.participation import willing
from maxfl.core.portfolio import model_to_train, vacancy
from maxfl.core.prng import Purpose, key
from maxfl.core.schedules import scheduled
from maxfl.engine.client_state import Memory, init_memory, read_state
from maxfl.engine.collectives import map_models
from maxfl.engine.evaluation import client_score
from maxfl.engine.minibatches import BatchGradient, Minibatches
from maxfl.engine.spec import Spec
from maxfl.engine.state import Measured, Personal, RoundContext, State
from maxfl.utils.tracing import trace_once


class ClientReply(NamedTuple):
    """What comes back from one sampled client.

    Attributes:
        total: Its weighted update and its weight (a WeightedSum), to be summed; only the weight
            where an aggregator wants the updates one by one.
        update: The update itself, where an aggregator wants it; else ().
        report: What the server sees of it beside the update.
        client_state: What it keeps.
        model: The model of a portfolio that it trained; () of one model.
    """

    total: Any
    update: Pytree
    report: Cohort
    client_state: Pytree
    model: Any = ()


def client_update(
    context: RoundContext, round_: Array, state: State, measured: Any, slot: Array, reached: Array
) -> ClientReply:
    """Let one sampled client train and reply (ClientUpdate of McMahan et al., AISTATS 2017).

    Args:
        context: What the rounds of a configuration share.
        round_: Rounds done before.
        state: Of the run.
        measured: Of all clients, where known (a Measured, float32[n]); else ().
        slot: Its slot in the data.
        reached: Whether it was sampled and is available at all.
    """
    spec, hparams = context.spec, context.hparams
    now = _judge(context, state, measured, slot)
    model: Any = ()
    if spec.has_portfolio:
        gap = context.cost(now) - context.requirement[slot]
        vacant = vacancy(hparams.portfolio, state.portfolio)
        model = model_to_train(vacant, state.portfolio, now.picked, gap)
        state = state.of_model(model)
    server, memory = recall(spec, state, slot)
    client = _measure(context, server, now, slot)
    wants = willing(
        spec.participation, hparams.participation, round_, client.cost, client.requirement
    )
    is_byzantine = context.is_byzantine[client.client_id]
    participated = reached & (wants | is_byzantine if spec.attacked else wants)
    reported = inflate_loss(context, client)
    client_state = memory.method if spec.model.keep_local else memory

    @trace_once
    def train() -> tuple[WeightedSum, Pytree, Pytree]:
        weight = spec.algorithm.weight(hparams.algorithm, server, reported)
        weight = jnp.where(weight > 0, weight, 0.0)  # a client without a requirement has NaN
        task = _local_task(context, Purpose.TRAINING, round_, slot)
        update, renewed = spec.algorithm.client_update(
            hparams.algorithm, server, client_state, reported, task
        )
        if spec.model.keep_local:
            update, renewed = _keep_state(server, update, renewed)
        if spec.attacked:
            sender = 0 if spec.collude else client.client_id
            noise = key(hparams.seed, Purpose.NOISE, round_, sender)
            sent = corrupt(hparams.attack, noise, update)
            update = jax.tree.map(
                lambda forged, honest: jnp.where(is_byzantine, forged, honest), sent, update
            )
            if spec.model.keep_local:  # nobody takes state, and so no noise on it either
                update = _without_state(update)
        if spec.clips:
            update = clip_update(update, hparams.aggregator.clip_norm)
        if spec.gathers_updates:
            return WeightedSum((), weight), update, renewed
        # No weight means no influence, even of an update that overflowed: 0 · ∞ is not 0.
        weighted = jax.tree.map(lambda u: jnp.where(weight > 0, weight * u, 0.0), update)
        return WeightedSum(weighted, weight), (), renewed

    def stay_away() -> tuple[WeightedSum, Pytree, Pytree]:
        total, update, _ = jax.tree.map(
            lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(train)
        )
        return total, update, memory

    if spec.layout.is_sequential:
        total, update, renewed = jax.lax.cond(participated, train, stay_away)
    else:  # vectorised, a cond would run both, on a copy of all data for each client
        total, update, renewed = jax.tree.map(
            partial(jnp.where, participated), train(), stay_away()
        )
    report = Cohort(
        client.client_id, participated, reported.loss, client.requirement, total.weight,
        reported.metric_cost, reported.finetuned_cost if spec.finetunes else None,
    )  # fmt: skip
    return ClientReply(total, update, report, renewed, model)


def recall(spec: Spec, state: State, slot: Array) -> tuple[Server, Pytree]:
    """Return the server as a client sees it, and what the client keeps.

    A client that keeps the model's state sees the global model with its own.
    """
    server = state.server
    fresh = init_memory(spec.model, spec.algorithm.init_client, server.params)
    memory = read_state(state.client_states, slot, fresh)
    if not spec.model.keep_local:
        return server, memory
    with_local_state = server.params._replace(state=memory.model_state)
    return server._replace(params=with_local_state), memory


def _keep_state(server: Server, update: Pytree, client_state: Pytree) -> tuple[Pytree, Memory]:
    """Take the model's state out of an update, w − w_k, and keep that of w_k."""
    local_state = difference(server.params.state, model_part(update).state)
    return _without_state(update), Memory(client_state, local_state)


def _without_state(update: Pytree) -> Pytree:
    """Return an update that leaves the model's state as it is."""
    part = model_part(update)
    nothing = jax.tree.map(jnp.zeros_like, part.state)
    return with_model_part(update, part._replace(state=nothing))


def inflate_loss(context: RoundContext, client: Client) -> Client:
    """Return what clients report of themselves: Byzantine ones add to their losses and costs."""
    if not context.spec.attacked:
        return client
    is_byzantine = context.is_byzantine[client.client_id]
    more = context.hparams.attack.loss_inflation

    def reported(loss: Array) -> Array:
        return jnp.where(is_byzantine, jnp.maximum(loss + more, 0.0), loss)

    def reported_cost(cost: Any) -> Any:
        return None if cost is None else jnp.where(is_byzantine, cost + more, cost)

    return client._replace(
        loss=reported(client.loss), finetuned_loss=reported(client.finetuned_loss),
        metric_cost=reported_cost(client.metric_cost),
        finetuned_metric_cost=reported_cost(client.finetuned_metric_cost),
    )  # fmt: skip


def personal_scores(
    context: RoundContext, state: State, measured: Measured, slot: Array
) -> Personal:
    """Measure the model that one client would use on its own data."""
    params = _personal_model(context, state, _of_slot(measured, slot), slot)
    chunk_size = context.spec.layout.eval_batch.client
    judged = context.measured(client_score(context.judging_task, chunk_size, slot, params))
    test = client_score(context.test_task, chunk_size, slot, params)
    decides = () if judged.metric is None else judged.metric
    return Personal(judged.loss, test.loss, test.metrics, decides)


def _personal_model(context: RoundContext, state: State, measured: Measured, slot: Array) -> Params:
    """Return the method's personal model, or the global one, fine-tuned where clients do."""
    spec = context.spec
    if spec.has_portfolio:
        state = state.of_model(measured.picked)
    server, memory = recall(spec, state, slot)
    params = server.params
    if spec.algorithm.personalize is not None:
        client_state = memory.method if spec.model.keep_local else memory
        client = _client(context, slot, measured, measured)
        task = _local_task(context, Purpose.FINETUNING, 0, slot)
        params = spec.algorithm.personalize(
            context.hparams.algorithm, server, client_state, client, task
        )
    return _finetune(context, slot, params) if spec.finetunes else params


def _judge(context: RoundContext, state: State, measured: Any, slot: Array) -> Measured:
    """Return what a client finds out about the model, or about the one of several that it picks."""
    spec = context.spec
    if spec.measures_everyone:
        return _of_slot(measured, slot)
    if not spec.has_portfolio:
        server, _ = recall(spec, state, slot)
        return _measure_model(context, slot, server.params)
    each = map_models(spec.layout, partial(_measure_model, context, slot), state.server.params)
    return context.pick(each)


def _measure_model(context: RoundContext, slot: Array, params: Params) -> Measured:
    chunk_size = context.spec.layout.eval_batch.client
    return context.measured(client_score(context.judging_task, chunk_size, slot, params))


def _measure(context: RoundContext, server: Server, now: Measured, slot: Array) -> Client:
    """Return what a client knows of the model: as received, and fine-tuned where clients do."""
    finetuned = now
    if context.spec.finetunes:
        finetuned = _measure_model(context, slot, _finetune(context, slot, server.params))
    return _client(context, slot, now, finetuned)


def _of_slot(measured: Measured, slot: Array) -> Measured:
    """Return what the client in a slot has measured."""
    return jax.tree.map(lambda values: values[slot], measured)


def _client(context: RoundContext, slot: Array, now: Measured, finetuned: Measured) -> Client:
    """Return what a client knows, of the model as received and as fine-tuned."""
    client_id, rho = context.client_id(slot), context.requirement[slot]
    costs = context.metric_cost(now), context.metric_cost(finetuned)
    return Client(client_id, _size(context, slot), now.loss, finetuned.loss, rho, *costs)


def _finetune(context: RoundContext, slot: Array, params: Params) -> Params:
    """Take a few steps on the client's own training data, the same minibatches every time."""
    task = _local_task(context, Purpose.FINETUNING, 0, slot)

    def later(w: Params, r: Array, scale: Any = 1.0) -> Params:
        return task.gradient(w, r + 1, scale)  # number 0 is for the method's own adapting

    steps = context.hparams.finetune_steps
    return descend(params, later, steps, task.learning_rate, task.optimizer)


def _local_task(context: RoundContext, purpose: Purpose, round_: Any, slot: Array) -> LocalTask:
    """Return what a client can do with its data, as its method sees it."""
    spec, hparams = context.spec, context.hparams
    client_id = context.client_id(slot)
    draws = key(hparams.seed, purpose, round_, client_id)
    minibatches = Minibatches(slot, draws, spec.batch_size)
    if spec.masks_batches:
        minibatches = minibatches._replace(used=hparams.batch_size)
    if spec.flip_labels and purpose is Purpose.TRAINING:
        flips = context.is_byzantine[client_id]
        minibatches = minibatches._replace(flips=flips, classes=spec.classes)
    steps = hparams.local_steps if spec.local_steps is None else spec.local_steps
    gradient = BatchGradient(context.train_task, minibatches)
    rate = hparams.local_lr
    if purpose is Purpose.TRAINING:
        rate = scheduled(spec.local_schedule, hparams.local_schedule, rate, round_)
    optimizer = spec.local_optimizer._replace(hparams=hparams.local_optimizer)
    return LocalTask(gradient, steps, rate, optimizer)


def _size(context: RoundContext, slot: Array) -> Array:
    offsets = context.data.train.offsets
    return offsets[slot + 1] - offsets[slot]
