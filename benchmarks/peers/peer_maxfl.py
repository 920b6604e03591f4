"""This engine: FedAvg, and MaxFL; and how long its default program takes to compile."""

import time
from functools import partial
from importlib.metadata import version
from typing import Any

import jax
import numpy as np
from task import Floats, Outcome, Task, main

import maxfl
from maxfl.core.requirements.requirement import Solo
from maxfl.engine.state import Block, State
from maxfl.engine.trainer import Prepared

METHODS = {"FedAvg": partial(maxfl.fedavg, by_size=1.0), "MaxFL": maxfl.maxfl}


def run(task: Task, variant: str, device: str) -> Outcome:  # noqa: ARG001
    """Run each block of rounds as one block of the program, which the first compiles.

    Where no evaluation is asked for, the one that ends a block is measured alone, and the fastest
    is taken off: the program's block before the rounds is nothing else.
    """
    maxfl.use_all_cores()
    if variant == "compile":
        return _compile(task)
    simulation = _simulation(task, METHODS[variant]())
    nothing = np.zeros((1, task.clients), np.float32)
    solo = Solo(nothing, nothing, (nothing,))
    prepared = Prepared(solo, simulation.requirements(solo))
    state = simulation.start()
    params = jax.tree.unflatten(
        jax.tree.structure(state.server.params), [p[None] for p in task.start]
    )
    state = state._replace(server=state.server._replace(params=params))

    def block(number: int, state: State) -> tuple[float, tuple[State, Block]]:
        """Return the milliseconds of a block, and what it gave."""
        began = time.perf_counter()
        found = jax.block_until_ready(next(simulation.blocks(prepared, state, done=number)))
        return (time.perf_counter() - began) * 1000, found

    whole, evaluations = [], []
    for number in range(1, 2 + task.blocks):
        evaluations.append(0.0 if task.evaluated else block(0, state)[0])
        taken, (state, last) = block(number, state)
        whole.append(taken)
    evaluating = min(evaluations[1:])
    ms = [(taken - evaluating) / task.rounds for taken in whole[1:]]
    trained_params = [np.array(p[0]) for p in jax.tree.leaves(state.server.params)]
    evaluation = _evaluation(last.evaluation) if task.evaluated else None
    more = {} if task.evaluated else {"evaluation_ms": [round(v, 3) for v in evaluations[1:]]}
    return Outcome(ms, trained_params, evaluation, more)


def _simulation(task: Task, algorithm: maxfl.Algorithm) -> maxfl.Simulation:
    """Return the task as a simulation of a block more, since its first one begins with no round."""
    every = 1 if task.evaluated else task.rounds
    training = maxfl.Training(
        task.all_rounds + task.rounds, task.cohort, task.steps, task.batch, task.rate, 1.0,
        every, task.rounds,
    )  # fmt: skip
    # A fixed requirement needs no solo training, and weighs clients by the same operations. Clients
    # train on all of their training data, and evaluate it all, as those of the peers do.
    requirement = maxfl.fixed(0.5, judge="training")
    return maxfl.Simulation(
        federation(task), _model(task), algorithm, training, requirement=requirement
    )


def federation(task: Task) -> maxfl.Federation:
    """Return the clients of a task."""
    train, test = (
        maxfl.Samples(np.array(s.x), np.array(s.y), s.offsets.astype(np.int32))
        for s in (task.train, task.test)
    )
    input_scaling = maxfl.InputScaling(np.float32(task.shift), np.float32(task.scale))
    return maxfl.Federation(train, test, task.clients, len(task.start[-1]), input_scaling)


def _model(task: Task) -> maxfl.Model:
    if task.model == "cnn":
        *channels, hidden, classes = (len(bias) for bias in task.start[1::2])
        return maxfl.cnn(
            (28, 28), classes, channels, len(task.start[0]), "valid", [hidden], task.dropout
        )
    *hidden, classes = (len(bias) for bias in task.start[1::2])
    return maxfl.mlp(len(task.start[0]), hidden, classes, task.dropout)


def _evaluation(evaluation: Any) -> Floats:
    """Return the last evaluation, float32[2, 2, K]; it has no accuracy on training data."""
    train, test, accuracy = (
        np.asarray(a)[0, -1]
        for a in (evaluation.judging_loss, evaluation.test_loss, evaluation.test_metrics[0])
    )
    return np.stack([[train, np.full_like(train, np.nan)], [test, accuracy]])


def _compile(task: Task) -> Outcome:
    """Measure how much longer the first block of a run with all defaults takes than a second's."""
    clients, model = federation(task), _model(task)

    def until_first_block() -> float:
        began = time.perf_counter()
        simulation = maxfl.Simulation(clients, model, maxfl.maxfl(), maxfl.Training())
        with simulation.compiling():
            state, prepared = simulation.start(), simulation.prepare()
        jax.block_until_ready(next(simulation.blocks(prepared, state)))
        return time.perf_counter() - began

    first, second = until_first_block(), until_first_block()
    return Outcome([], task.start, None, {"compile_seconds": round(first - second, 2)})


if __name__ == "__main__":
    versions = {name: version(name) for name in ("maxfl", "jax", "numpy")}
    main("maxfl", (*METHODS, "compile"), run, versions)
