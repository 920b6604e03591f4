"""The compiled programs.

To start a federation, train clients alone and run a block of rounds; and where the data of some
clients alone are here, to train a cohort, to ask clients and to show them the model. Each works on
all configurations of a sweep (leading axis C). All but the start run under one ``shard_map``:
configurations along one axis of the devices, clients along the other.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import PartitionSpec

from maxfl.core.algorithm import Client, Pytree, Server, descend
from maxfl.core.model import Model, Params
from maxfl.core.participation import willing
from maxfl.core.prng import Purpose, key
from maxfl.core.requirement import Solo
from maxfl.core.server_optimizers import Kind, Rates, transformation
from maxfl.engine.client_state import empty
from maxfl.engine.client_update import lie, personal_scores
from maxfl.engine.collectives import gather, share_out
from maxfl.engine.evaluation import evaluate, owners
from maxfl.engine.layout import CLIENT, SWEEP, Layout
from maxfl.engine.local import batch_gradient, client_score
from maxfl.engine.rounds import all_losses, run_round, train_cohort, watched_losses
from maxfl.engine.spec import (
    Asked,
    Data,
    Evaluation,
    Numbers,
    Personal,
    Setup,
    SoloSpec,
    Spec,
    State,
)

SKIP = -1
"""In a plan: no rounds and no evaluation, so that a shorter last block needs no new program."""

EACH, ALIKE = PartitionSpec(SWEEP), PartitionSpec()

T = TypeVar("T")
Own = tuple[Numbers, Array, Array, State]
"""What configurations have of their own: numbers, requirement, who lies, state."""


# It runs once, so it is optimised little: a second less to compile on a CPU.
@partial(
    jax.jit,
    static_argnums=(0, 1, 2, 3, 4, 5),
    compiler_options={"xla_backend_optimization_level": 1},
)
def start(
    model: Model,
    init: Callable[[Params, int], Pytree],
    memory: Callable[[Params], Pytree],
    optimiser: Kind,
    seen: int,
    rows: int,
    seed: Array,
) -> State:
    """State before the first round, for every configuration; init and memory are the method's.

    Clients' memory begins with so many ``rows``.
    """

    def one(seed: Array) -> State:
        params = model.init(key(seed, Purpose.INIT))
        kept = transformation(optimiser, Rates()).init(params)
        return State(Server(params, init(params, seen)), empty(memory(params), seen, rows), kept)

    return jax.lax.map(one, seed)


@partial(jax.jit, static_argnums=0)
def train_alone(
    spec: SoloSpec,
    data: Data,
    seed: Array,
    local_lr: Array,
    batch_size: Array,
    clients: Array,
    names: Array | None = None,
) -> Solo:
    """Every given client trains a model of its own, float32[C, n]; the models are not kept.

    ``clients`` are places in the data; ``names`` their numbers, where not all clients are there.
    """  # fmt: skip

    def one(data: Data, seed: Array, local_lr: Array, batch_size: Array, k: Array) -> Solo:
        number = k if names is None else names[k]
        draws = key(seed, Purpose.SOLO_TRAINING, client=number)
        gradient = partial(
            batch_gradient, spec.model, data.decoding, data.train, k, spec.batch_size, draws
        )
        if spec.masks:
            gradient = partial(gradient, used=batch_size)
        fresh = spec.model.init(key(seed, Purpose.SOLO_INIT, client=number))
        params = descend(fresh, gradient, spec.steps, local_lr)
        rows = spec.layout.rows.client
        train = client_score(spec.model, data.decoding, data.train, rows, k, params)
        test = client_score(spec.model, data.decoding, data.test, rows, k, params)
        return Solo(train.loss, test.loss, test.accuracy)

    def shard(data: Data, own: tuple[Array, ...], clients: Array) -> Solo:
        def configuration(own: tuple[Array, ...]) -> Solo:
            return _map(partial(one, data, *own), clients, spec.layout.clients_at_once)

        return _map(configuration, own, spec.layout.configurations_at_once)

    specs = (ALIKE, EACH, PartitionSpec(CLIENT))
    each_client = PartitionSpec(SWEEP, CLIENT)
    own = seed, local_lr, batch_size
    return _shard(spec.layout, shard, specs, each_client)(data, own, clients)


@partial(jax.jit, static_argnums=0)
def run_block(
    spec: Spec,
    data: Data,
    numbers: Numbers,
    requirement: Array,
    lies: Array,
    state: State,
    first: Array,
    plan: Array,
) -> tuple[State, Asked, Evaluation]:
    """Run a block of rounds from round ``first`` on, for every configuration.

    Args:
        spec: What is compiled in.
        data: The federation's arrays.
        numbers: Leading axis C.
        requirement: ρ, float32[C, K].
        lies: Who lies, bool[C, K].
        state: Leading axis C.
        first: Number of rounds done before.
        plan: int[P]: so many rounds, then an evaluation, P times; or ``SKIP``.

    Returns:
        The new state; who was asked, [C, P, period, m]; evaluations, [C, P, K].
    """

    def shard(data: Data, sweep: Own, first: Array, plan: Array) -> tuple[State, Asked, Evaluation]:
        owner, test_owner = owners(data.train), owners(data.test)

        def configuration(
            own: Own,
        ) -> tuple[State, Asked, Evaluation]:
            numbers, rho, lies, state = own
            setup = Setup(spec, data, owner, numbers, rho, lies)

            def period(carry: tuple[State, Any, Array], rounds: Array) -> tuple[Any, Any]:
                state, losses, first = carry
                state, losses, asked = _rounds(setup, state, losses, first, rounds)
                first = first + jnp.maximum(rounds, 0)
                look = partial(_evaluate, setup, test_owner, first, state, losses)
                return (state, losses, first), (asked, _if(rounds != SKIP, look))

            begin = state, watched_losses(setup, state.server), first
            (state, _, _), (asked, evaluation) = jax.lax.scan(period, begin, plan)
            return state, asked, evaluation

        return _map(configuration, sweep, spec.layout.configurations_at_once)

    sweep = numbers, requirement, lies, state
    return _shard(spec.layout, shard, (ALIKE, EACH, ALIKE, ALIKE), EACH)(data, sweep, first, plan)


@partial(jax.jit, static_argnums=0)
def run_cohort(
    spec: Spec,
    data: Data,
    names: Array,
    sweep: Own,
    round_: Array,
    sampled: Array,
    losses: Any,
) -> tuple[State, Asked]:
    """Train one cohort whose data alone are here: clients ``names``, int32[m], in their order.

    Requirements are theirs, float32[C, m]; the state's memory has their rows, in their order.
    ``sampled`` says which of them are real, bool[m]; ``losses`` are theirs where the rule has
    measured them, float32[m], else ().
    """  # fmt: skip

    def train(
        data: Data, own: Own, names: Array, round_: Array, sampled: Array, losses: Any
    ) -> tuple[State, Asked]:
        numbers, rho, lies, state = own
        setup = Setup(spec, data, jnp.zeros(0, jnp.int32), numbers, rho, lies, names)
        return train_cohort(setup, round_, state, losses, jnp.arange(spec.cohort), sampled)

    return _for_each(spec, train, data, sweep, names, round_, sampled, losses)


@partial(jax.jit, static_argnums=0)
def ask(
    spec: Spec,
    data: Data,
    names: Array,
    sweep: Own,
    round_: Array,
) -> tuple[Array, Array]:
    """Show the model to clients ``names``, whose data are here: F_k(w), and who is willing; [C, n].

    Liars always are.
    """

    def show(data: Data, own: Own, names: Array, round_: Array) -> tuple[Array, Array]:
        numbers, rho, lies, state = own
        train = data.train
        # Rows behind the last client's are nobody's.
        there = jnp.arange(len(train.y)) < train.offsets[-1]
        owner = jnp.where(there, owners(train), len(names))
        setup = Setup(spec, data, owner, numbers, rho, lies, names)
        loss = all_losses(setup, state.server)
        wants = willing(spec.rule, numbers.presence, round_, loss, rho)
        return loss, wants | lies[names] if spec.attack else wants

    return _for_each(spec, show, data, sweep, names, round_)


@partial(jax.jit, static_argnums=0)
def look(
    spec: Spec,
    data: Data,
    names: Array,
    sweep: Own,
    done: Array,
) -> Evaluation:
    """Show the model after ``done`` rounds to clients ``names``, whose data are here; [C, n]."""

    def show(data: Data, own: Own, names: Array, done: Array) -> Evaluation:
        numbers, rho, lies, state = own
        setup = Setup(spec, data, owners(data.train), numbers, rho, lies, names)
        losses = watched_losses(setup, state.server)
        return _evaluate(setup, owners(data.test), done, state, losses)

    return _for_each(spec, show, data, sweep, names, done)


def _for_each(spec: Spec, function: Callable[..., T], data: Data, sweep: Own, *alike: Any) -> T:
    """``function(data, own, *alike)`` for every configuration, laid out on the devices."""

    def shard(data: Data, sweep: Own, *alike: Any) -> Any:
        return _map(
            lambda own: function(data, own, *alike), sweep, spec.layout.configurations_at_once
        )

    specs = (ALIKE, EACH, *(ALIKE for _ in alike))
    return _shard(spec.layout, shard, specs, EACH)(data, sweep, *alike)


def _rounds(
    setup: Setup, state: State, losses: Any, first: Array, count: Array
) -> tuple[State, Any, Asked]:
    """``count`` rounds of one configuration; who was asked, [period, m], the rest zeros."""

    def one(i: Array, carry: tuple[State, Any, Asked]) -> tuple[State, Any, Asked]:
        state, losses, log = carry
        state, losses, asked = run_round(setup, first + i, state, losses)
        return state, losses, jax.tree.map(lambda rows, row: rows.at[i].set(row), log, asked)

    shape = (setup.spec.period, setup.spec.cohort)
    no = jnp.zeros(shape, bool)
    log = Asked(jnp.zeros(shape, jnp.int32), no, no, jnp.zeros(shape))
    return jax.lax.fori_loop(0, count, one, (state, losses, log))


def _evaluate(
    setup: Setup, test_owner: Array, done: Array, state: State, losses: Any
) -> Evaluation:
    """Show the model to all K clients after ``done`` rounds."""
    spec, data, _, numbers, rho, lies, _ = setup
    server = state.server
    rows = spec.layout.rows.everyone
    test = evaluate(spec.model, data.decoding, data.test, rows, test_owner, server.params)
    loss = losses if spec.watches else all_losses(setup, server)
    personal: Any = _evaluate_personal(setup, state, loss) if spec.personal else ()
    # A method with personal models of its own weighs no client by its tuned loss.
    tuned = personal.train_loss if spec.tunes and not spec.algorithm.personal else loss
    number = setup.number(jnp.arange(len(rho)))
    clients = Client(number, jnp.diff(data.train.offsets), loss, tuned, rho)
    weigh = partial(spec.algorithm.weight, numbers.hyper, server)
    wants = willing(spec.rule, numbers.presence, done, loss, rho)
    return Evaluation(
        train_loss=loss,
        test_loss=test.loss,
        test_accuracy=test.accuracy,
        willing=wants | lies[number] if spec.attack else wants,
        weight=jax.vmap(weigh)(lie(setup, clients)),
        personal=personal,
    )


def _evaluate_personal(setup: Setup, state: State, losses: Array) -> Personal:
    """How the models that clients use do on their own data, float32[K]; devices share the work."""
    clients, width = len(setup.requirement), setup.spec.layout.clients_at_once
    turns = -(-clients // (jax.lax.axis_size(CLIENT) * width))
    own = share_out(jnp.arange(clients), turns, width)
    scores = _map(partial(personal_scores, setup, state, losses), own.reshape(-1), width)
    each = gather(jax.tree.map(lambda a: a.reshape(turns, width), scores))
    return jax.tree.map(lambda a: a[:clients], each)


def _if(condition: Array, function: Callable[[], T]) -> T:
    """The function's value, or zeros without calling it."""
    shapes = jax.eval_shape(function)
    nothing = partial(jax.tree.map, lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    return jax.lax.cond(condition, function, nothing)


def _map(function: Callable[..., Any], items: Any, at_once: int) -> Any:
    """Map over the leading axis, so many at once. One at once adds no batch axis."""
    if at_once == 1:
        return jax.lax.map(function, items)
    return jax.lax.map(function, items, batch_size=at_once)


def _shard(
    layout: Layout, function: Callable[..., Any], specs: Any, out: Any
) -> Callable[..., Any]:
    # Every device along the client axis ends with the same values, by psum and all_gather; the
    # static check cannot follow that through loops of unknown length.
    mesh = layout.mesh
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)
