"""What earlier versions called settings, columns and metrics: old folders are still read.

An experiment is finished by the version that began it.
"""

import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

SETTINGS = {
    "adversary": "attack",
    "adversary.share": "attack.fraction",
    "adversary.inflation": "attack.loss_inflation",
    "adversary.noise": "attack.noise_std",
    "adversary.scale": "attack.update_scale",
    "adversary.flip_labels": "attack.flip_labels",
    "adversary.collude": "attack.collude",
    "data.flipped": "data.flipped_fraction",
    "data.panel": "data.eval_clients",
    "data.train_share": "data.train_fraction",
    "participation.ask": "participation.max_candidates",
    "participation.dropout": "participation.client_dropout",
    "participation.start": "participation.start_round",
    "personal": "personalization",
    "personal.tuning": "personalization.finetune_steps",
    "server.aggregation": "server.aggregator",
    "server.clip": "server.clip_norm",
    "server.keep": "server.num_selected",
    "server.liars": "server.num_byzantine",
    "server.optimiser": "server.optimizer",
    "server.stability": "server.eps",
    "server.trim": "server.trim_fraction",
    "training.block": "training.checkpoint_every",
}
"""Keys of a configuration, and what they are called now."""
FLOWER_SETTINGS = {
    "flower.reveal": "flower.collect_losses",
    "participation.floor": "participation.min_participants",
    "replies.largest_norm": "replies.max_update_norm",
    "replies.least": "replies.min_replies",
    "server.rule": "server.aggregator",
}
"""Settings of a federation on Flower, which no TOML file had, and what they are called now."""
DESCRIPTIONS = {
    "optimiser.stability": "server_optimizer.eps",
    **{f"optimiser.{key}": f"server_optimizer.{key}" for key in ("kind", "beta1", "beta2")},
    **{f"robust.{key}": f"aggregator.{key}" for key in ("rule", "clips")},
    "robust.clip": "aggregator.clip_norm",
    "robust.trim": "aggregator.trim_fraction",
    "robust.liars": "aggregator.num_byzantine",
    "robust.keep": "aggregator.num_selected",
    "adversary.active": "attack.active",
    "tuning": "finetune_steps",
    "stream.panel": "streaming.eval_clients",
    "stream.ask": "streaming.max_candidates",
}
"""What a run from Python, without settings, says of itself, and what that is called now."""
COLUMNS = {
    "took_part": "participated",
    **{
        f"{model}{verb}_{old}": f"{model}satisfied_{new}"
        for model in ("", "personal_")
        for verb in ("appeals", "satisfied")
        for old, new in (("held_out", "test"), ("training", "judging"), ("literal", "literal"))
    },
}
"""Columns of tables, and what they are called now; ``column`` knows some more."""
MEASURED = re.compile(r"(personal_|solo_|)train_(?!samples$)(\w+)")
"""Columns of a loss, or of a metric that requirements are about, on the data that clients judge by:
these were always their training data."""
METRICS = {
    "survey_asked": "all_responded",
    "survey_willing": "all_willing",
    "survey_took_part": "all_participated",
    "survey_willing_share": "all_willing_share",
    "asked": "sampled",
    "took_part": "participated",
    "train_loss": "judging_loss",
    "gm_appeal_training": "gm_appeal_judging",
}
"""Names in the column ``metric`` (two of them on Flower alone), and what they are called now."""
READINGS = {"held-out": "test", "training": "judging"}
"""Readings of GM-Appeal in ``summary.json``, and what they are called now."""


def column(name: str) -> str:
    """Return what a column of a table is called now."""
    if measured := MEASURED.fullmatch(name):
        return f"{measured[1]}judging_{measured[2]}"
    return COLUMNS.get(name, name)


def rename_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by dotted key, those of earlier versions under their new names."""
    renamed = SETTINGS | FLOWER_SETTINGS | DESCRIPTIONS
    return {renamed.get(key, key): value for key, value in settings.items()}


def rename_figures(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``summary.json`` says of a configuration, with the readings' new names."""
    return {key: _rename_readings(value) for key, value in entry.items()}


def _rename_readings(value: Any) -> Any:
    """Rename readings in figures of a group of clients, one within the other."""
    if not isinstance(value, Mapping):
        return value
    if "held-out" in value:
        return {READINGS.get(reading, reading): figure for reading, figure in value.items()}
    return {key: _rename_readings(inner) for key, inner in value.items()}


def writer(experiment: Mapping[str, Any]) -> str:
    """Return the version that wrote an experiment.json; those of 0.1 do not always say so."""
    first: Mapping[str, Any] = next(iter(experiment.get("groups", {}).values()), {})
    return str(experiment.get("maxfl") or first.get("maxfl") or "0.1.0")


def how_to_finish(experiment: Mapping[str, Any]) -> str:
    """Say how an unfinished experiment is finished."""
    wrote = writer(experiment)
    if wrote == version("maxfl"):
        is_real = "flower" in (experiment.get("config") or {})
        return "MaxFL(resume=True) goes on" if is_real else "add --resume to go on"
    return f"written by maxfl {wrote}: finish it with that version"
