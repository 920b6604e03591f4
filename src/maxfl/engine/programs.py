"""The compiled programs: to start a federation, train clients alone, and run a block of rounds.

Each works on all configurations of a sweep (leading axis C). All but the start run under one
``shard_map``: configurations along one axis of the devices, clients along the other.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import PartitionSpec

from maxfl.core.algorithm import Client, Pytree, Server, descend, trained
from maxfl.core.model import Model, Params
from maxfl.core.participation import willing
from maxfl.core.portfolio import init_portfolio
from maxfl.core.prng import Purpose, key
from maxfl.core.requirements.requirement import Solo
from maxfl.core.server_optimizers import OptimizerHParams, OptimizerKind, transformation
from maxfl.engine.client_state import init_memory, init_states
from maxfl.engine.client_update import inflate_loss, personal_scores
from maxfl.engine.collectives import map_chunks, map_clients
from maxfl.engine.evaluation import client_score
from maxfl.engine.layout import CLIENT, SWEEP, Layout
from maxfl.engine.minibatches import BatchGradient, Minibatches, Task
from maxfl.engine.rounds import measure_everyone, measure_if_needed, run_round, score_everyone
from maxfl.engine.spec import SoloSpec, Spec
from maxfl.engine.state import (
    CohortRecord,
    Data,
    Evaluation,
    Measured,
    ModelStep,
    Personal,
    RoundContext,
    RoundRecord,
    SoloHParams,
    State,
    Sweep,
    of_picked,
)
from maxfl.utils.tracing import trace_once

SKIP = -1
"""In a schedule: no rounds and no evaluation, so that a shorter last block needs no new program."""

EACH, ALIKE = PartitionSpec(SWEEP), PartitionSpec()

T = TypeVar("T")


# It runs once, so it is optimised little: a second less to compile on a CPU.
@partial(
    jax.jit,
    static_argnums=(0, 1, 2, 3, 4, 5, 6),
    compiler_options={"xla_backend_optimization_level": 1},
)
def init_state(
    model: Model,
    init_server: Callable[[Params, int], Pytree],
    init_client: Callable[[Params], Pytree],
    server_optimizer: OptimizerKind,
    seen: int,
    rows: int,
    models: int,
    seed: Array,
) -> State:
    """Return the state before the first round, for every configuration.

    The ``init`` functions are the method's; client states begin with so many ``rows``. Of several
    ``models``, each is drawn on its own, the first as if it were alone.
    """
    optimizer = transformation(server_optimizer, OptimizerHParams())

    def one(seed: Array) -> State:
        first = model.init(key(seed, Purpose.INIT))
        params, opt_state = first, optimizer.init(trained(first))
        portfolio: Any = ()
        if models > 1:
            keys = jax.vmap(lambda j: key(seed, Purpose.INIT, client=j))(jnp.arange(models))
            params = jax.vmap(model.init)(keys)
            opt_state = jax.vmap(optimizer.init)(trained(params))
            portfolio = init_portfolio(models)
        return State(
            Server(params, init_server(first, seen)),
            init_states(init_memory(model, init_client, first), seen, rows),
            opt_state,
            portfolio,
        )

    return jax.lax.map(one, seed)


@partial(jax.jit, static_argnums=0)
def train_solo(
    spec: SoloSpec,
    data: Data,
    hparams: SoloHParams,
    slots: Array,
    client_ids: Array | None = None,
) -> Solo:
    """Let every given client train a model alone, float32[C, n]; the models are not kept.

    Args:
        spec: What is compiled in.
        data: Of the clients.
        hparams: Leading axis C.
        slots: Of the clients in the data, int32[n].
        client_ids: Of all clients in the data, where they are not all there are.
    """

    def one(data: Data, hparams: SoloHParams, slot: Array) -> Solo:
        client_id = slot if client_ids is None else client_ids[slot]
        draws = key(hparams.seed, Purpose.SOLO_TRAINING, client=client_id)
        minibatches = Minibatches(slot, draws, spec.batch_size)
        if spec.masks_batches:
            minibatches = minibatches._replace(used=hparams.batch_size)
        task = Task(spec.model, data.input_scaling, data.train, data.frozen)
        gradient = BatchGradient(task, minibatches)
        fresh = spec.model.init(key(hparams.seed, Purpose.SOLO_INIT, client=client_id))
        steps = hparams.steps if spec.steps is None else spec.steps
        optimizer = spec.local_optimizer._replace(hparams=hparams.local_optimizer)
        params = descend(fresh, gradient, steps, hparams.local_lr, optimizer)
        chunk_size = spec.layout.eval_batch.client
        judged = client_score(task._replace(samples=data.judged), chunk_size, slot, params)
        test = client_score(task._replace(samples=data.test), chunk_size, slot, params)
        index = spec.criterion.metric
        decides = () if index is None else judged.metrics[index]
        return Solo(judged.loss, test.loss, test.metrics, decides)

    def shard(data: Data, sweep: SoloHParams, slots: Array) -> Solo:
        def configuration(hparams: SoloHParams) -> Solo:
            return map_chunks(partial(one, data, hparams), slots, spec.layout.parallel_clients)

        return map_chunks(configuration, sweep, spec.layout.parallel_configurations)

    specs = (ALIKE, EACH, PartitionSpec(CLIENT))
    each_client = PartitionSpec(SWEEP, CLIENT)
    return on_devices(spec.layout, shard, specs, each_client)(data, hparams, slots)


@partial(jax.jit, static_argnums=0)
def run_block(
    spec: Spec, data: Data, sweep: Sweep, first: Array, schedule: Array
) -> tuple[State, RoundRecord, Evaluation]:
    """Run a block of rounds from round ``first`` on, for every configuration.

    Args:
        spec: What is compiled in.
        data: The federation's arrays.
        sweep: Leading axis C.
        first: Number of rounds done before.
        schedule: int[P]: so many rounds, then an evaluation, P times; or ``SKIP``.

    Returns:
        The new state; rounds, [C, P, period, ...]; evaluations, [C, P, K].
    """

    def shard(
        data: Data, sweep: Sweep, first: Array, schedule: Array
    ) -> tuple[State, RoundRecord, Evaluation]:
        def configuration(one: Sweep) -> tuple[State, RoundRecord, Evaluation]:
            context = RoundContext(spec, data, one.hparams, one.requirement, one.is_byzantine)

            def period(carry: tuple[State, Any, Array], rounds: Array) -> tuple[Any, Any]:
                state, measured, first = carry
                state, measured, records = _rounds(context, state, measured, first, rounds)
                first = first + jnp.maximum(rounds, 0)
                show = partial(evaluate_all, context, first, state, measured)
                return (state, measured, first), (records, _if(rounds != SKIP, show))

            begin = one.state, measure_if_needed(context, one.state), first
            (state, _, _), (records, evaluation) = jax.lax.scan(period, begin, schedule)
            return state, records, evaluation

        return map_chunks(configuration, sweep, spec.layout.parallel_configurations)

    run = on_devices(spec.layout, shard, (ALIKE, EACH, ALIKE, ALIKE), EACH)
    return run(data, sweep, first, schedule)


def evaluate_all(context: RoundContext, done: Array, state: State, measured: Any) -> Evaluation:
    """Show the model to all clients whose data are here, after ``done`` rounds; [n] each."""
    spec, data, hparams, rho = context.spec, context.data, context.hparams, context.requirement
    server = state.server
    test = score_everyone(context, state, context.test_task)
    if not spec.measures_everyone:
        measured = measure_everyone(context, state)
    if spec.has_portfolio:
        measured = context.pick(measured)
        test = of_picked(test, measured.picked)
    personal: Any = _evaluate_personal(context, state, measured) if spec.has_personal_models else ()
    # A method with personal models of its own weighs no client by its fine-tuned loss.
    weighs_finetuned = spec.finetunes and not spec.algorithm.personalize
    finetuned = measured
    if weighs_finetuned:
        by_metric = spec.criterion.metric is not None
        finetuned = Measured(personal.judging_loss, personal.judging_metric if by_metric else None)
    client_id = context.client_id(jnp.arange(len(rho)))
    sizes = jnp.diff(data.train.offsets)
    clients = Client(
        client_id, sizes, measured.loss, finetuned.loss, rho,
        context.metric_cost(measured), context.metric_cost(finetuned),
    )  # fmt: skip
    weigh = partial(spec.algorithm.weight, hparams.algorithm, server)
    wants = willing(spec.participation, hparams.participation, done, context.cost(measured), rho)
    return Evaluation(
        judging_loss=measured.loss,
        test_loss=test.loss,
        test_metrics=test.metrics,
        willing=wants | context.is_byzantine[client_id] if spec.attacked else wants,
        weight=jax.vmap(weigh)(inflate_loss(context, clients)),
        personal=personal,
        judging_metric=() if measured.metric is None else measured.metric,
        picked=measured.picked if spec.has_portfolio else (),
    )


def on_devices(
    layout: Layout, function: Callable[..., Any], specs: Any, out: Any
) -> Callable[..., Any]:
    """Return the function under ``shard_map``."""
    # Every device along the client axis ends with the same values, by psum and all_gather; the
    # static check cannot follow that through loops of unknown length.
    mesh = layout.mesh
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)


def _rounds(
    context: RoundContext, state: State, measured: Any, first: Array, count: Array
) -> tuple[State, Any, RoundRecord]:
    """Run ``count`` rounds of one configuration; records of a period, beyond them zeros."""

    def one(i: Array, carry: tuple[State, Any, RoundRecord]) -> tuple[State, Any, RoundRecord]:
        state, measured, log = carry
        state, measured, record = run_round(context, first + i, state, measured)
        return state, measured, jax.tree.map(lambda rows, row: rows.at[i].set(row), log, record)

    period = context.spec.period
    shape = (period, context.spec.cohort)
    no, norms = jnp.zeros(shape, bool), jnp.zeros(period)
    number = jnp.zeros(shape, jnp.int32)
    model: Any = number if context.spec.has_portfolio else ()
    cohorts = CohortRecord(number, no, no, jnp.zeros(shape), model)
    log = RoundRecord(cohorts, ModelStep(norms, norms))
    return jax.lax.fori_loop(0, count, one, (state, measured, log))


def _evaluate_personal(context: RoundContext, state: State, measured: Measured) -> Personal:
    """Measure the models that clients use on their own data, float32[K]."""
    score = partial(personal_scores, context, state, measured)
    return map_clients(score, len(context.requirement), context.spec.layout.parallel_clients)


def _if(condition: Array, function: Callable[[], T]) -> T:
    """Return the function's value, or zeros without calling it."""
    function = trace_once(function)
    shapes = jax.eval_shape(function)
    nothing = partial(jax.tree.map, lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    return jax.lax.cond(condition, function, nothing)
