"""Run folders written without training: the same files, from numbers that are made up."""

from importlib.metadata import version

import numpy as np
import pyarrow as pa

import maxfl
from maxfl.core.judging import with_judging
from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.core.requirements.requirement import Solo, Thresholds
from maxfl.engine.experiment import make_experiment, origin_of
from maxfl.engine.history import History
from maxfl.engine.state import CohortRecord, Evaluation, Personal
from maxfl.runs import tables
from maxfl.runs.progress import ProgressFile
from maxfl.utils.files import write_json, write_whole
from support.federations import make_clients
from support.small import MODEL

CLIENTS, ROUNDS = 12, 6
"""Of runs that several tests report on."""
REGRESSION = (MetricInfo("mae", higher_is_better=False), MetricInfo("rmse", higher_is_better=False))
"""The metrics of a model with squared error."""


def make_history(
    clients, rounds, cohort=4, unseen=0, drift=0.0, seed=0, byzantine=(), metrics=(ACCURACY,),
    personal=None,
):  # fmt: skip
    """A history of one configuration; losses wander, ``drift`` pulls them down.

    With ``personal``, clients have personal models whose losses are that much lower.
    """
    rng = np.random.default_rng(seed)
    shape = (1, rounds + 1, clients)
    steps = rng.normal(-drift, 0.05, shape).cumsum(1)
    loss = np.abs(2.3 + rng.normal(0, 0.3, (1, 1, clients)) + steps).astype(np.float32)
    threshold = rng.uniform(0.5, 2.5, (1, clients)).astype(np.float32)
    sampled = np.argsort(rng.random((1, rounds, clients - unseen)), axis=-1)[..., :cohort]
    present = np.ones(sampled.shape, bool)
    return History(
        rounds=np.arange(rounds + 1),
        is_seen=np.arange(clients) < clients - unseen,
        evaluation=Evaluation(
            judging_loss=loss,
            test_loss=loss + 0.1,
            test_metrics=tuple(_metric(info, loss) for info in metrics),
            willing=loss < threshold[:, None],
            weight=np.full(shape, 0.25, np.float32),
            personal=() if personal is None else _personal(loss - np.float32(personal), metrics),
        ),
        cohorts=CohortRecord(sampled, present, present, np.full(sampled.shape, 0.25, np.float32)),
        solo=Solo(threshold, threshold, tuple(_metric(info, threshold) for info in metrics)),
        thresholds=Thresholds(threshold, threshold),
        is_byzantine=np.isin(np.arange(clients), byzantine)[None],
        params=(),
        metric_infos=metrics,
    )


def _personal(loss, metrics):
    return Personal(loss, loss + 0.1, tuple(_metric(info, np.abs(loss)) for info in metrics))


def with_origin(history, algorithm, *, requirement=None, seed=0):
    """Return a made-up history that says of which method and clients it is."""
    sizes = [5] * len(history.is_seen)
    federation = maxfl.Federation.from_clients(
        make_clients(sizes), make_clients(sizes, 1), unseen=int((~history.is_seen).sum())
    )
    if requirement is not None:
        federation = with_judging(federation, requirement.judging)
    experiment = make_experiment(federation, MODEL, algorithm, requirement=requirement, seed=seed)
    return history._replace(origin=origin_of(experiment, federation, len(history.is_byzantine)))


def _metric(info, loss):
    """A metric that is better where the loss is."""
    return np.exp(-loss) if info.higher_is_better else np.sqrt(loss)


def write_run(folder, history, settings, seed=0, digest="same", names=None):
    """Write the files of a finished run, as ``maxfl run`` leaves them, but for the model."""
    folder.mkdir(parents=True)
    clients = len(history.is_seen)
    contents = {
        "history": tables.history_table(history, [0]),
        "rounds": tables.rounds_table(history, [0]),
        "metrics": tables.metrics_table(history, tables.Labels().of(1), [seed]),
        "clients": clients_table(history, names),
        "partition": pa.table({
            "client": np.arange(clients, dtype=np.int32),
            "label": pa.array([f"label {k % 3}" for k in range(clients)]).dictionary_encode(),
            "samples": np.full(clients, 7, np.int32),
            "flipped": np.arange(clients) % 5 == 0,
        }),
    }  # fmt: skip
    for name, table in contents.items():
        write_whole(folder / f"{name}.parquet", tables.to_parquet(table))
    config = {"seed": seed, **settings}
    experiment = {"maxfl": version("maxfl"), "config": config, "federation": digest}
    write_json(folder / "experiment.json", experiment)
    entry = {"values": {}, "data": "made-up data", "notes": [], "diverged": False,
             "stalled_from_round": None,
             "metrics": [info._asdict() for info in history.metric_infos]}  # fmt: skip
    write_json(
        folder / "summary.json",
        {"maxfl": "0", "jax": "0", "device": "none", "rounds": int(history.rounds[-1]),
         "configurations": [entry]},
    )  # fmt: skip
    return folder


def clients_table(history, names=None):
    clients = len(history.is_seen)
    threshold = history.thresholds.judging[0]
    return pa.table({
        "configuration": np.zeros(clients, np.int32), "client": np.arange(clients, dtype=np.int32),
        "name": names or [str(k) for k in range(clients)], "seen": history.is_seen,
        "byzantine": history.is_byzantine[0], "train_samples": np.full(clients, 5, np.int32),
        "test_samples": np.full(clients, 2, np.int32), "requirement": threshold,
        "test_requirement": threshold,
        "solo_judging_loss": threshold, "solo_test_loss": threshold,
        **{f"solo_test_{info.name}": values[0]
           for info, values in zip(history.metric_infos, history.solo.test_metrics, strict=True)},
    })  # fmt: skip


def settings_of(name, **more):
    """Return settings of a method, as experiment.json has them."""
    return {"algorithm": {"name": name, **more}, "training": {"rounds": 3}, "data": {"alpha": 0.5}}


def started(folder, metrics=(ACCURACY,), **changes):
    """Make a run folder at work in this process: 4 of 10 rounds done."""
    folder.mkdir(parents=True)
    write_json(folder / "experiment.json", {"maxfl": version("maxfl"), "federation": "x"})
    progress = ProgressFile(folder, [{"seed": 3}], None)
    progress.measured(make_history(6, 4, metrics=metrics))
    progress.state = progress.state._replace(**changes)
    progress.report("rounds", 4, 10)
    return progress
