"""Follow work in progress: what folders of runs, sweeps and studies say of themselves.

Only files are read, so the run does not notice.
"""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.report.legacy import how_to_finish, rename_figures, rename_settings
from maxfl.report.measures import APPEAL, WILLING, Measure, first_metric, measure_of, words_of
from maxfl.report.names import label_of
from maxfl.runs.progress import PROGRESS, ProgressState, read_progress
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_json, read_mapping
from maxfl.utils.integrity import explain_damage
from maxfl.utils.paths import EXPERIMENT, SUMMARY

QUIET = 90.0
"""Seconds without a sign of life after which one should look after a run."""


class Status(NamedTuple):
    """What was seen at one moment.

    Attributes:
        stage: What it is doing, for people.
        done: Rounds done, over all groups of a sweep.
        total: Rounds to do, 0 if not yet known.
        left: Seconds left, None if not known.
        finished: Whether all is done.
        alive: Whether a process is at work; None if that can't be told, as on another machine.
        stopped: Why it ended before its end, as far as it could say.
        silent: Seconds since the last sign of life.
        rows: What was measured last: (label, metrics), of the seen clients.
        trail: Metrics over rounds of the run at work: means over its configurations.
        warnings: What goes wrong without an error.
        metric: The model's first, which is among what was measured.
        how_to_finish: What to do if it stopped.
        trail_end: The last round of the run whose trail this is; 0 if not yet known.
    """

    stage: str
    done: float
    total: float
    left: float | None
    finished: bool
    alive: bool | None
    stopped: str | None
    silent: float
    rows: list[tuple[str, dict[str, float | None]]]
    trail: dict[str, list[float | None]]
    warnings: list[str]
    metric: MetricInfo = ACCURACY
    how_to_finish: str = ""
    trail_end: float = 0.0

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What is shown: GM-Appeal, the first metric, who is willing."""
        return APPEAL, measure_of(self.metric)._replace(words=words_of(self.metric)), WILLING

    @property
    def headline(self) -> str:
        """How far it is, in words."""
        words = [self.stage]
        if self.total and not self.finished:
            words.append(f"{self.done:.0f} of {self.total:.0f} rounds")
        if self.left is not None and not self.finished:
            words.append(f"about {_duration(self.left)} left")
        return ", ".join(words)

    @property
    def trouble(self) -> str:
        """Why somebody should look after it; "" if nobody needs to."""
        if self.alive is False and not self.finished:
            return f"stopped ({self.stopped or 'no process is at work'}): {self.how_to_finish}"
        minutes = int(self.silent // 60)
        return f"no sign of life for {minutes} min" if self.silent > QUIET else ""


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def read_status(folder: Path) -> Status:
    """See how far the work in a folder is."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: name one that a run is writing to")
    if not (folder / EXPERIMENT).is_file():
        raise InputError(f"{folder} holds no run ({EXPERIMENT} is not there)")
    experiment = read_mapping(folder / EXPERIMENT)
    with explain_damage(f"a file in {folder}"):
        if "federation" in experiment:
            return _run(folder)._replace(how_to_finish=how_to_finish(experiment))
        if "groups" in experiment:
            status = _sweep(folder, len(experiment["groups"]))
            return status._replace(how_to_finish=how_to_finish(experiment))
        if "study" in experiment:
            return _study(folder)
        raise KeyError("federation, groups or study")


def _study(folder: Path) -> Status:
    """Read the stage of a study that is at work, or its last."""
    stages = [name for name in ("search", "final") if (folder / name / EXPERIMENT).is_file()]
    if not stages:
        return _waiting("the study has not begun to train")
    seen = read_status(folder / stages[-1])
    finished = (folder / "study.json").is_file()
    words = {"search": "search on validation data", "final": "final runs"}[stages[-1]]
    return seen._replace(stage=f"{words}: {seen.stage}", finished=finished)


def _run(folder: Path) -> Status:
    if (folder / SUMMARY).is_file():
        summary = read_json(folder / SUMMARY)
        entries, rounds = summary["configurations"], float(summary["rounds"])
        return Status(
            "finished",
            rounds,
            rounds,
            0.0,
            True,
            False,
            None,
            0.0,
            [(_label(entry["values"]), _final(entry)) for entry in entries],
            {},
            [warning["text"] for entry in entries for warning in entry.get("warnings", [])],
            first_metric(entries[0]),
        )
    if not (folder / PROGRESS).is_file():
        return _waiting("the run has not begun, or stopped before its first sign of life")
    try:
        now = read_progress(folder)
    except InputError:
        if (folder / SUMMARY).is_file():  # it was finished in this very moment
            return _run(folder)
        raise
    silent = max(0.0, time.time() - now.at)
    known = now.stage == "rounds"
    labels = map(_label, now.configurations)
    return Status(
        "training" if known else now.stage,
        now.done if known else 0.0,
        now.total if known else 0.0,
        _left(now) if known and now.stopped is None and _alive(now) is not False else None,
        False,
        _alive(now) if now.stopped is None else False,
        now.stopped,
        silent,
        list(zip(labels, now.latest, strict=False)),
        now.trail,
        now.warnings,
        now.metric,
        trail_end=now.total if known else 0.0,
    )


def _left(now: ProgressState) -> float | None:
    """Estimate seconds left at the pace since this process began to train."""
    done = now.done - now.first
    return (now.at - now.began) / done * (now.total - now.done) if done > 0 else None


def _alive(now: ProgressState) -> bool | None:
    if now.host != socket.gethostname():
        return None
    try:
        os.kill(now.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _sweep(folder: Path, groups: int) -> Status:
    """Read all groups together; a group's rounds are one unit of work."""
    places = sorted((folder / "groups").glob("*"))
    statuses = [_run(place) for place in places if (place / EXPERIMENT).is_file()]
    if not statuses:
        return _waiting("the sweep has not begun to train")
    rounds = max((status.total for status in statuses), default=0.0)
    done = sum(rounds if status.finished else status.done for status in statuses)
    at_work = [status for status in statuses if not status.finished]
    finished = (folder / SUMMARY).is_file()
    latest = at_work[-1] if at_work else statuses[-1]
    number = len(statuses) - len(at_work)
    states = [status.alive for status in at_work]
    alive = True if True in states else states[0] if states else None
    return Status(
        "finished" if finished else f"{number} of {groups} groups finished, {latest.stage}",
        done,
        groups * rounds,
        _pace(places, done, groups * rounds) if at_work and alive is not False else None,
        finished,
        alive,
        next((status.stopped for status in at_work if status.stopped), None)
        if alive is False
        else None,
        min((status.silent for status in at_work), default=0.0),
        [row for status in statuses for row in status.rows],
        latest.trail,
        [text for status in statuses for text in status.warnings],
        latest.metric,
        trail_end=rounds,
    )


def _pace(places: list[Path], done: float, total: float) -> float | None:
    """Estimate seconds left at the pace of all groups so far, whenever they were at work."""
    spent = 0.0
    for place in places:
        if (place / SUMMARY).is_file():
            spent += read_json(place / SUMMARY).get("seconds", 0.0)
        elif (place / PROGRESS).is_file():
            with suppress(InputError):  # it may be finished by now
                now = read_progress(place)
                spent += now.at - now.began
    return spent / done * (total - done) if done > 0 else None


def _label(values: dict[str, Any]) -> str:
    if "method" in values:  # of a study
        return f"{values['method']}, {values['part']}, seed {values['seed']}"
    settings = rename_settings(values)
    return label_of(settings, list(settings)) if settings else "the run"


def _final(entry: dict[str, Any]) -> dict[str, float | None]:
    entry = rename_figures(entry)
    seen, metric = entry["seen"], f"test_{first_metric(entry).name}"
    return {
        "gm_appeal": seen["gm_appeal"]["test"],
        metric: seen[metric],
        "willing": seen["willing"],
    }


def _waiting(words: str) -> Status:
    return Status(words, 0.0, 0.0, None, False, None, None, 0.0, [], {}, [])
