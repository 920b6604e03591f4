"""Write what a history holds into a folder: every file of a finished run."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from maxfl.algorithms import ALGORITHMS
from maxfl.engine.history import History
from maxfl.runs.folder import RunFolder
from maxfl.runs.frames import known_origin, swept_labels
from maxfl.runs.summary import summarise
from maxfl.runs.tables import Labels, results_files
from maxfl.utils.paths import MODEL, TABLES
from maxfl.utils.tensors import to_tensors


def write_results(
    folder: RunFolder, history: History, labels: Labels, seconds: float | None = None
) -> None:
    """Write every file of a finished run; the summary last."""
    origin, params = known_origin(history), history.params
    federation = origin.federation
    contents = results_files(history, federation, labels, origin.seeds.tolist())
    if len(labels.indices) == 1:  # one model has its own shapes; several have a leading axis
        params = jax.tree.map(lambda a: a[0], params)
    summary = {
        "seconds": seconds,
        "rounds": int(history.rounds[-1]),
        "configurations": summarise(
            history, labels.values, federation, origin.model, origin.findings
        ),
    }
    names = {"configurations": ",".join(map(str, labels.indices))}
    folder.write_results({**contents, MODEL: to_tensors(params, names)}, summary)


def write_history(history: History, folder: Path) -> Path:
    """Write a history that was not trained in a folder into a new one, to be read by a report."""
    origin = known_origin(history)
    model = origin.model
    words = f"{model.name or 'own'}, {model.parameters.trained:,} parameters, {model.loss}"
    description = {
        "federation": origin.federation.digest_as_given(),
        "model": words,
        **origin.settings,
        "algorithm": _chosen(origin.settings["algorithm"]),
    }
    place = RunFolder(folder, (*TABLES, MODEL))
    with place.claim(description, resume=False):
        write_results(place, history, swept_labels(origin))
    return folder


def _chosen(algorithm: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's name and numbers, without those that are its defaults."""
    factory = ALGORITHMS.get(algorithm["name"])
    known = inspect.signature(factory).parameters if factory else {}
    defaults = {name: parameter.default for name, parameter in known.items()}
    return {
        name: value for name, value in algorithm.items()
        if name not in defaults or value != defaults[name]
    }  # fmt: skip
