"""The compiled programs where only some clients' data are on the devices.

To train a cohort, to show candidates the model, and to evaluate. Each works on all configurations
of a sweep (leading axis C), as those of ``maxfl.engine.programs`` do.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.participation import willing
from maxfl.engine.collectives import map_chunks
from maxfl.engine.programs import ALIKE, EACH, evaluate_all, on_devices
from maxfl.engine.rounds import (
    measure_everyone,
    measure_if_needed,
    start_vacant_model,
    train_cohort,
)
from maxfl.engine.spec import Spec
from maxfl.engine.state import Data, Evaluation, Measured, RoundContext, RoundRecord, State, Sweep

T = TypeVar("T")


@partial(jax.jit, static_argnums=0)
def run_cohort(
    spec: Spec,
    data: Data,
    client_ids: Array,
    sweep: Sweep,
    round_: Array,
    sampled: Array,
    measured: Any,
) -> tuple[State, RoundRecord]:
    """Train one cohort whose data alone are here.

    Args:
        spec: What is compiled in.
        data: Of the cohort, in its order.
        client_ids: Of the cohort, int32[m].
        sweep: Its requirements are the cohort's, float32[C, m]; so are its client states.
        round_: Rounds done before.
        sampled: Which of the cohort are real, bool[m].
        measured: By the cohort, float32[m] each, where the rule has it do so; else ().
    """

    def train(
        data: Data, one: Sweep, client_ids: Array, round_: Array, sampled: Array, measured: Any
    ) -> tuple[State, RoundRecord]:
        context = _context(spec, data, one, client_ids)
        state = one.state
        if spec.has_portfolio:
            state, _ = start_vacant_model(context, state)
        return train_cohort(context, round_, state, measured, jnp.arange(spec.cohort), sampled)

    return _for_each(spec, train, data, sweep, client_ids, round_, sampled, measured)


@partial(jax.jit, static_argnums=0)
def show_candidates(
    spec: Spec, data: Data, client_ids: Array, sweep: Sweep, round_: Array
) -> tuple[Measured, Array]:
    """Show the model to clients whose data are here: what they measure, and who is willing.

    [C, n] each. Byzantine clients always are willing.
    """

    def show(data: Data, one: Sweep, client_ids: Array, round_: Array) -> tuple[Measured, Array]:
        context = _context(spec, data, one, client_ids)
        if spec.has_portfolio:
            state, _ = start_vacant_model(context, one.state)
            measured = context.pick(measure_everyone(context, state))
        else:
            measured = measure_everyone(context, one.state)
        cost = context.cost(measured)
        wants = willing(
            spec.participation, one.hparams.participation, round_, cost, one.requirement
        )
        return measured, wants | one.is_byzantine[client_ids] if spec.attacked else wants

    return _for_each(spec, show, data, sweep, client_ids, round_)


@partial(jax.jit, static_argnums=0)
def evaluate_clients(
    spec: Spec, data: Data, client_ids: Array, sweep: Sweep, done: Array
) -> Evaluation:
    """Show the model after ``done`` rounds to clients whose data are here; [C, n] each."""

    def show(data: Data, one: Sweep, client_ids: Array, done: Array) -> Evaluation:
        context = _context(spec, data, one, client_ids)
        measured = measure_if_needed(context, one.state)
        return evaluate_all(context, done, one.state, measured)

    return _for_each(spec, show, data, sweep, client_ids, done)


def _context(spec: Spec, data: Data, one: Sweep, client_ids: Array) -> RoundContext:
    return RoundContext(spec, data, one.hparams, one.requirement, one.is_byzantine, client_ids)


def _for_each(spec: Spec, function: Callable[..., T], data: Data, sweep: Sweep, *alike: Any) -> T:
    """Return ``function(data, one, *alike)`` for every configuration, laid out on the devices."""

    def shard(data: Data, sweep: Sweep, *alike: Any) -> Any:
        return map_chunks(
            lambda one: function(data, one, *alike), sweep, spec.layout.parallel_configurations
        )

    specs = (ALIKE, EACH, *(ALIKE for _ in alike))
    return on_devices(spec.layout, shard, specs, EACH)(data, sweep, *alike)
