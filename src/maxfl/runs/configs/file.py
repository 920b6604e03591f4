"""A run as a TOML file: validated as a whole before anything is computed."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from maxfl.data.arrays import CLIENT, PART
from maxfl.report.legacy import SETTINGS
from maxfl.runs.configs.algorithm import AlgorithmConfig, hparams_of
from maxfl.runs.configs.data import DataConfig
from maxfl.runs.configs.model import (
    DEFAULT_MODEL,
    MODEL_CONFIGS,
    ModelSettings,
    OwnModelConfig,
    own_settings,
)
from maxfl.runs.configs.run import RunConfig
from maxfl.utils.errors import InputError, did_you_mean, shorten

TABLE_SETTINGS = (
    "client_column", "label_column", "feature_columns", "drop_columns", "split_column", "task",
    "encode", "missing", "standardize",
)  # fmt: skip
CLUSTERED = {"ifca": "FedAvg", "hypcluster": "FedAvg by samples"}
"""Methods that are meant for several models, and what they are with one."""
QUOTED = re.compile("""['"]([^'"]*)['"]""")


class Named(NamedTuple):
    """A section whose other settings depend on a name: the default one, and those of each."""

    default: str
    settings: Callable[[str], set[str]]


def _settings_of_method(name: str) -> set[str]:
    return {parameter.name for parameter in hparams_of(name)}


def _settings_of_model(name: str) -> set[str]:
    if name in MODEL_CONFIGS:
        return set(MODEL_CONFIGS[name].model_fields)
    return {*ModelSettings.model_fields, *(parameter.name for parameter in own_settings(name))}


NAMED = {
    "algorithm": Named(AlgorithmConfig().name, _settings_of_method),
    "model": Named(DEFAULT_MODEL, _settings_of_model),
}


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: name a TOML file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read: {error}") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} can't be read: {_beyond_reading(error)}") from None


def parse_setting(text: str, option: str = "--set") -> tuple[str, Any]:
    """Parse ``key=value`` with a TOML value; a bare word is a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"{option} {text}: expected key=value, for instance training.rounds=50")
    try:
        parsed = tomllib.loads(f"value = {value}")
        if len(parsed) > 1:
            raise InputError(f"{option} {key.strip()}: one setting at a time, not several lines")
        return key.strip(), parsed["value"]
    except InputError:
        raise
    except tomllib.TOMLDecodeError:
        return key.strip(), value.lstrip()  # a pattern may end in a space
    except (ValueError, RecursionError) as error:
        raise InputError(f"{option} {key.strip()}: {_beyond_reading(error)}") from None


def _beyond_reading(error: Exception) -> str:
    """Say what of valid TOML is too much: Python reads neither very long numbers nor deep lists."""
    deep = isinstance(error, RecursionError)
    return "lists in lists too deep to read" if deep else "a number of too many digits"


def override(raw: dict[str, Any], key: str, value: Any, above: str = "") -> dict[str, Any]:
    """Return a copy of nested tables with one dotted key set."""
    first, _, rest = key.partition(".")
    if not rest:
        return {**raw, first: value}
    table = raw.get(first, {})
    if not isinstance(table, dict):
        raise InputError(f"{above}{key}: {above}{first} is a value, not a table")
    return {**raw, first: override(table, rest, value, f"{above}{first}.")}


def override_all(raw: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of nested tables with some dotted keys set.

    Another ``algorithm.name`` or ``model.name`` leaves the settings behind that only the one before
    it knows.
    """
    for section, named in NAMED.items():
        if new := settings.get(f"{section}.name"):
            raw = {**raw, section: _without_others(raw.get(section, {}), named, new)}
    for key, value in settings.items():
        raw = override(raw, key, value)
    return raw


def _without_others(table: Any, named: Named, new: Any) -> Any:
    """Return a section's table without settings that the one of the new name lacks."""
    old = table.get("name", named.default) if isinstance(table, dict) else None
    try:
        before, after = named.settings(str(old)), named.settings(str(new))
    except InputError:
        return table  # left for the validation to explain
    return {key: value for key, value in table.items() if key not in before or key in after}


def unused(config: RunConfig) -> list[str]:
    """Return settings that do nothing beside the others, or never take effect, in words."""
    everyone = config.participation.rule == "everyone"
    solo = config.requirement.rest == "solo"
    server = config.server
    adaptive = server.optimizer in ("adam", "yogi")
    attack = config.attack
    honest = attack.fraction == 0
    attacks = [
        ("attack", key, honest, "attack.fraction is 0")
        for key in ("loss_inflation", "noise_std", "update_scale", "flip_labels", "collude")
    ]
    harmless = (attack.loss_inflation, attack.noise_std, attack.update_scale) == (0, 0, 1)
    idle = not honest and harmless and not attack.flip_labels
    silent = not honest and attack.noise_std == 0
    checks = (
        *attacks,
        *_data_checks(config.data),
        *_local_checks(config),
        ("model", "huber_delta", config.model.loss != "huber", "the loss is not Huber's"),
        (
            "model",
            "padding",
            config.model.loss not in ("auto", "next-token"),
            "the loss is not that of next tokens",
        ),
        ("attack", "fraction", idle, "no attack is configured"),
        ("attack", "collude", silent, "there is no noise to agree on"),
        ("server", "beta1", server.optimizer == "sgd", "the optimizer is sgd"),
        ("server", "beta2", not adaptive, f"the optimizer is {server.optimizer}"),
        ("server", "eps", not adaptive, f"the optimizer is {server.optimizer}"),
        ("server", "by_weight", server.aggregator == "mean", "the mean is always by weight"),
        ("server", "trim_fraction", server.aggregator != "trimmed-mean", "nothing is trimmed"),
        ("server", "num_byzantine", server.aggregator != "krum", "the aggregator is not krum"),
        ("server", "num_selected", server.aggregator != "krum", "the aggregator is not krum"),
        (
            "requirement",
            "multiple",
            not solo,
            "no client requires a multiple of its solo model's value",
        ),
        (
            "requirement",
            "judge_fraction",
            config.requirement.judge == "training",
            "clients judge by their training data",
        ),
        ("participation", "start_round", everyone, "everyone participates"),
        ("portfolio", "patience", config.portfolio.models == 1, "there is one model"),
        (
            "portfolio",
            "patience",
            config.portfolio.models > 1 and config.algorithm.name in CLUSTERED,
            f"{config.algorithm.name} leaves a model that nobody picks as it is",
        ),
        (
            "participation",
            "max_candidates",
            config.data.source != "disk",
            "opt-out shows the model to all clients",
        ),
    )
    notes = [
        f"{section}.{key} does nothing here: {why}"
        for section, key, idle, why in checks
        if idle and key in getattr(config, section).model_fields_set
    ]
    if config.algorithm.name in CLUSTERED and config.portfolio.models == 1:
        notes.append(
            f"{config.algorithm.name} with one model is {CLUSTERED[config.algorithm.name]}: set "
            f"portfolio.models"
        )
    return notes + _long_warmups(config) + _lost_arrays(config.data) + _as_written(config.data)


def unused_beside_data(config: RunConfig, *, has_own_judging: bool) -> list[str]:
    """Return the same of settings that depend on the data at hand."""
    section, key = config.requirement, "judge_fraction"
    idle = has_own_judging and section.judge == "held-out" and key in section.model_fields_set
    why = "the data have a judging part of their own"
    return [f"requirement.{key} does nothing here: {why}"] if idle else []


def _local_checks(config: RunConfig) -> list[tuple[str, str, bool, str]]:
    """Return the same of local optimizers and schedules."""
    optimizer, schedule = config.local.optimizer, config.schedule
    adaptive = optimizer in ("adam", "adamw")
    curves = {"local": schedule.local, "server": schedule.server}
    return [
        ("local", "beta1", optimizer == "sgd", "the local optimizer is sgd"),
        ("local", "beta2", not adaptive, f"the local optimizer is {optimizer}"),
        ("local", "eps", not adaptive, f"the local optimizer is {optimizer}"),
        *(
            ("schedule", f"{rate}_{key}", curve == "constant", f"schedule.{rate} is constant")
            for rate, curve in curves.items()
            for key in ("end", "rounds")
        ),
    ]


def _long_warmups(config: RunConfig) -> list[str]:
    """Say which rates never reach what they were set to."""
    rounds, schedule = config.training.rounds, config.schedule
    warmups = {"local": schedule.local_warmup, "server": schedule.server_warmup}
    return [
        f"training.{rate}_lr is never reached: schedule.{rate}_warmup = {warmup}, and there are "
        f"{rounds} rounds"
        for rate, warmup in warmups.items()
        if warmup >= rounds
    ]


def _data_checks(data: DataConfig) -> list[tuple[str, str, bool, str]]:
    """Return (section, key, whether it does nothing, why) of the data's settings."""
    source, partition = data.source, data.partition
    if source == "disk":
        return []
    by_owner = partition == "by-owner"
    owned_sizes = partition in ("by-owner", "dirichlet-unequal")
    drawn = source == "synthetic" or (source == "text" and data.role_pattern is None)
    images = source == "fashion-mnist" or source.startswith("emnist")
    no_table, by_split = source != "table", by_owner and data.split_column is not None
    return [
        *(("data", key, no_table, "the data are no table") for key in TABLE_SETTINGS),
        ("data", "split_column", not no_table and not by_owner, "clients are not the table's own"),
        ("data", "train_fraction", by_split, "data.split_column says what is for training"),
        (
            "data",
            "train_fraction",
            by_owner and PART in data.arrays,
            f"the array {PART} says what is for training",
        ),
        ("data", "clients", by_owner and not drawn, "the data have their clients"),
        ("data", "samples", owned_sizes, "sizes come with the partition"),
        ("data", "min_samples", not owned_sizes, "all clients have data.samples"),
        ("data", "alpha", "dirichlet" not in partition, "the partition is not dirichlet"),
        ("data", "clusters", partition != "clusters", "the partition is not clusters"),
        ("data", "shards", partition != "shards", "the partition is not shards"),
        ("data", "flip", data.flipped_fraction == 0, "data.flipped_fraction is 0"),
        ("data", "part", not images, "only image data sets have parts"),
        ("data", "vectors", "sent140" not in source, "there are no texts"),
        ("data", "sequence_length", source != "text", "only a text is cut into sequences"),
        ("data", "role_pattern", source != "text", "only a text has roles to be found"),
        ("data", "vocabulary", source != "leaf-reddit", "there are no tokens to be counted"),
        ("data", "synthetic_alpha", source != "synthetic", "the data are not synthetic"),
        ("data", "synthetic_beta", source != "synthetic", "the data are not synthetic"),
        ("data", "synthetic_samples", source != "synthetic", "the data are not synthetic"),
        ("data", "eval_clients", True, "all clients are in memory, and evaluate the model"),
    ]


def _lost_arrays(data: DataConfig) -> list[str]:
    """Say, of a file of arrays, which of them mean nothing to clients that are drawn."""
    lost = [name for name in (CLIENT, PART) if name in data.arrays]
    if data.partition == "by-owner" or not lost:
        return []
    do = "arrays {} do" if len(lost) > 1 else "array {} does"
    tested = ", also those that are marked as test" if PART in lost else ""
    keep = 'choose "by-owner"' if CLIENT in lost else f"add an array {CLIENT}"
    return [
        f"data.file: its {do.format(' and '.join(lost))} nothing here: data.partition = "
        f'"{data.partition}" draws clients, and splits their samples anew{tested}; {keep} to keep '
        f"what the file says"
    ]


def _as_written(data: DataConfig) -> list[str]:
    """Say, of a federation on disk, what was settled when it was written."""
    fields = [
        key for key in DataConfig.model_fields if key not in ("source", "folder", "eval_clients")
    ]
    given = [f"data.{key}" for key in fields if key in data.model_fields_set]
    if data.source != "disk" or not given:
        return []
    return [
        f"the federation in {data.folder} is as it was written, whatever {', '.join(given)} say"
    ]


def validate(raw: dict[str, Any], where: str) -> RunConfig:
    """Check a whole configuration; the error lists every mistake with its key."""
    try:
        return RunConfig.model_validate(raw)
    except ValidationError as error:
        lines = [f"  {_explain(e)}" for e in error.errors()]
        mistakes = f"{len(lines)} mistake{'s' if len(lines) > 1 else ''}"
        raise InputError(f"{where} has {mistakes}:\n" + "\n".join(lines)) from None


def _explain(error: Any) -> str:
    loc, section = _locate(error["loc"])
    key = ".".join(map(str, loc))
    if error["type"] == "union_tag_invalid":
        names, given = list(MODEL_CONFIGS), error["ctx"]["tag"]
        return f"{key}.name: expected one of {', '.join(names)} (given: {given!r})" + did_you_mean(
            given, names
        )
    if error["type"] == "extra_forbidden":
        if key in SETTINGS:
            inner = error["input"] if isinstance(error["input"], dict) else {}
            moved = [f"{key}.{name}" for name in inner if f"{key}.{name}" in SETTINGS] or [key]
            return "; ".join(f"{old} is called {SETTINGS[old]} now" for old in moved)
        known = list(section.model_fields)
        near = did_you_mean(loc[-1], known)
        of = f" of {error['loc'][1]}" if loc != error["loc"] else ""
        return f"{key}: unknown key{of}; known here are {', '.join(known)}{near}"
    message = error["msg"].removeprefix("Value error, ")
    message = message.replace("a valid tuple", "a list")  # TOML has no tuples
    given = error["input"]
    shown = "" if isinstance(given, dict | BaseModel) else f" (given: {shorten(given)})"
    near = did_you_mean(given, QUOTED.findall(message))
    return f"{key}: {message}{shown}{near}"


def _locate(loc: tuple[Any, ...]) -> tuple[tuple[Any, ...], type[BaseModel]]:
    """Return the key of a mistake, and the table that should know it.

    In between, the key of a model's setting has the model's name.
    """
    if loc[0] == "model" and len(loc) > 1:
        return (loc[0], *loc[2:]), MODEL_CONFIGS.get(loc[1], OwnModelConfig)
    field = RunConfig.model_fields.get(str(loc[0]))
    return loc, RunConfig if field is None or len(loc) == 1 else field.annotation  # type: ignore[return-value]
