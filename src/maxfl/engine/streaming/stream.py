"""Train a federation on disk from start to end, in one call and a folder of the moment."""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxfl.core.aggregators import Aggregator
from maxfl.core.algorithm import Algorithm
from maxfl.core.attacks import Attack
from maxfl.core.federation import Federation
from maxfl.core.local_optimizers import LocalOptimizer
from maxfl.core.model import Model
from maxfl.core.participation import Participation
from maxfl.core.portfolio import Portfolio
from maxfl.core.requirements.requirement import Requirement
from maxfl.core.schedules import Schedule
from maxfl.core.server_optimizers import ServerOptimizer
from maxfl.engine.experiment import Training
from maxfl.engine.history import History
from maxfl.engine.resources import explain_out_of_memory
from maxfl.engine.state import CohortRecord
from maxfl.engine.streaming.simulation import EVAL_CLIENTS, StreamingSimulation
from maxfl.engine.trainer import Progress, shown_progress, train
from maxfl.utils.disk_space import explain_disk_full

ROOM = "give stream() a folder on a larger disk, or lower training.rounds or training.cohort"


class StreamedRun(NamedTuple):
    """What happened.

    Attributes:
        eval_clients: Ids of the clients that evaluated the model, int[P]; the history is theirs.
        history: As of a simulation, of the evaluation clients; its ``counts`` are of all clients.
        cohorts: Of each round, by client id, [1, R, m] each.
    """

    eval_clients: NDArray[np.int64]
    history: History
    cohorts: CohortRecord


def stream(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    training: Training | None = None,
    *,
    requirement: Requirement | None = None,
    participation: Participation | None = None,
    server_optimizer: ServerOptimizer | None = None,
    local_optimizer: LocalOptimizer | None = None,
    local_schedule: Schedule | None = None,
    server_schedule: Schedule | None = None,
    portfolio: Portfolio | None = None,
    aggregator: Aggregator | None = None,
    attack: Attack | None = None,
    finetune_steps: ArrayLike = 0,
    seed: ArrayLike = 0,
    eval_clients: int = EVAL_CLIENTS,
    max_candidates: int | None = None,
    devices: list[Any] | None = None,
    max_parallel: int | None = None,
    folder: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> StreamedRun:
    """Train a federation whose data stay on disk (``maxfl.open_federation``).

    For a run that survives a kill, take ``maxfl.run(StreamingSimulation(...), folder)``. All
    arguments but the last two are those of ``StreamingSimulation``, which explains them. In
    ``folder``, by default the system's, a temporary one is made for client states. ``progress`` is
    a function that is called with (stage, done, total); True shows a bar and False nothing; by
    default there is a bar in a notebook.
    """
    simulation = StreamingSimulation(
        federation, model, algorithm, training,
        requirement=requirement, participation=participation,
        server_optimizer=server_optimizer, local_optimizer=local_optimizer,
        local_schedule=local_schedule, server_schedule=server_schedule,
        portfolio=portfolio,
        aggregator=aggregator, attack=attack, finetune_steps=finetune_steps, seed=seed,
        eval_clients=eval_clients, max_candidates=max_candidates, devices=devices,
        max_parallel=max_parallel,
    )  # fmt: skip
    resources = simulation.resources
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        explain_disk_full(Path(place), "client states", resources.folder_bytes, ROOM),
        explain_out_of_memory(resources.advice),
        shown_progress(progress) as report,
        simulation.open(Path(place), report),
    ):
        done = train(simulation, report)
    cohorts = [block.cohorts for block in done.blocks]
    return StreamedRun(
        simulation.eval_clients,
        done.history,
        jax.tree.map(lambda *parts: np.concatenate(parts, 1), *cohorts),
    )
