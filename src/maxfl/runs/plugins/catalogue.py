"""All that a file can name: methods, models, losses, data and requirements, with one line each."""

import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel

from maxfl.algorithms import ALGORITHMS
from maxfl.core import losses
from maxfl.core.requirements import requirement
from maxfl.data import registry
from maxfl.models.registry import MODELS
from maxfl.runs.configs.data import DataConfig
from maxfl.runs.configs.model import MODEL_CONFIGS, LossName, ModelSettings
from maxfl.runs.configs.requirement import RequirementConfig
from maxfl.runs.plugins.entry_points import Kind, Offered, offered
from maxfl.runs.plugins.factories import FILLED
from maxfl.runs.plugins.importing import shown_path
from maxfl.runs.plugins.parameters import (
    Parameter,
    Parameters,
    one_line,
    own_parameters,
    parameters_of,
)
from maxfl.runs.plugins.resolve import Own, load
from maxfl.utils.errors import InputError

KINDS: Mapping[str, Kind] = {
    "algorithm.name": "algorithm",
    "model.name": "model",
    "model.loss": "loss",
    "data.source": "data",
    "requirement.kind": "requirement",
}
"""What is listed, by the setting that names it."""
LOSSES: Mapping[str, Any] = {
    "cross-entropy": losses.cross_entropy,
    "multi-label": losses.multi_label,
    "squared-error": losses.squared_error,
    "absolute-error": losses.absolute_error,
    "huber": losses.huber,
    "next-token": losses.next_token,
}
OTHER_SOURCES = {
    "table": "your own table, in a file",
    "arrays": "your own arrays, in a file",
    "disk": "a federation on disk, of which a cohort at a time is in memory",
}


class Listed(NamedTuple):
    """Something that a file can name.

    Attributes:
        name: As the file has it.
        what: One line on it.
        parameters: What can be set of it.
        origin: Where own code comes from; "" for what is built in.
        error: Why it can't be used; "" if it can.
        text: All that is known of it.
        filled: Parameters that are no settings but filled in, by what it makes.
    """

    name: str
    what: str
    parameters: Parameters
    origin: str = ""
    error: str = ""
    text: str = ""
    filled: Mapping[str, tuple[str, ...]] = {}


def catalogue() -> dict[str, list[Listed]]:
    """List everything that is built in or offered by installed packages, by setting."""
    built_in = {
        "algorithm.name": [_function(name, make) for name, make in ALGORITHMS.items()],
        "model.name": [_model(name) for name in MODEL_CONFIGS],
        "model.loss": [_loss(name) for name in get_args(LossName)],
        "data.source": _sources(),
        "requirement.kind": _requirements(),
    }
    return {
        setting: [*listed, *_offered(KINDS[setting], {one.name for one in listed})]
        for setting, listed in built_in.items()
    }


def _function(name: str, function: Callable[..., Any]) -> Listed:
    text = inspect.getdoc(inspect.getmodule(function)) or ""
    return Listed(name, one_line(function), parameters_of(function), text=text)


def _model(name: str) -> Listed:
    config, factory = MODEL_CONFIGS[name], MODELS[name].factory
    own = config.model_fields.keys() - ModelSettings.model_fields.keys()
    known = tuple(
        Parameter(key, field.default, field.description or "")
        for key, field in config.model_fields.items()
        if key in own
    )
    module = inspect.getdoc(inspect.getmodule(factory)) or ""
    return Listed(name, one_line(config), known, text=module)


def _loss(name: str) -> Listed:
    if name not in LOSSES:
        return Listed(name, "Choose by the labels.", ())
    known = _settings_for(name, ModelSettings)
    return Listed(name, one_line(LOSSES[name]), known, text=inspect.getdoc(losses) or "")


def _settings_for(name: str, config: type[BaseModel]) -> Parameters:
    """Return the settings of a table whose descriptions say that they are for this name alone."""
    said = f"for {name}: "
    return tuple(
        Parameter(key, field.default, (field.description or "").removeprefix(said))
        for key, field in config.model_fields.items()
        if (field.description or "").startswith(said)
    )


def _sources() -> list[Listed]:
    words = {entry.name: entry.what for entry in registry.entries()} | OTHER_SOURCES
    names = get_args(DataConfig.model_fields["source"].annotation)
    return [Listed(name, words.get(name, ""), _settings_for(name, DataConfig)) for name in names]


def _requirements() -> list[Listed]:
    field = RequirementConfig.model_fields["kind"]
    said = dict(part.split(": ", 1) for part in str(field.description).split("; ") if ": " in part)
    words = RequirementConfig.model_fields["metric"].description or ""
    metric = (Parameter("metric", None, words),)
    return [
        Listed(
            kind,
            said.get(kind) or one_line(getattr(requirement, kind)),
            _settings_for(kind, RequirementConfig) + (() if kind == "fixed" else metric),
        )
        for kind in get_args(field.annotation)
    ]


def _offered(kind: Kind, built_in: set[str]) -> list[Listed]:
    return [_of_package(one, kind, built_in) for one in offered(kind)]


def _of_package(one: Offered, kind: Kind, built_in: set[str]) -> Listed:
    """List what a package offers; if it is broken, with the reason."""
    try:
        own = load(one.target)
        known = own_parameters(own, FILLED.get(kind, ()))
    except InputError as error:
        return Listed(one.name, "", (), one.package, str(error))
    same = [other.package for other in offered(kind) if other.name == one.name]
    taken = "built in" if one.name in built_in else " and ".join(same) if len(same) > 1 else ""
    refused = f"that name is taken ({taken}); write {one.target}" if taken else ""
    text = inspect.getdoc(own.function) or ""
    filled = _filled(own_parameters(own), [kind] if kind in FILLED else ())
    return Listed(one.name, one_line(own.function), known, one.package, refused, text, filled)


def look_up(name: str) -> list[Listed]:
    """Return all that a name may mean: own code, or what the catalogue has under it."""
    if ":" in name:
        return [_own(load(name))]
    return [one for listed in catalogue().values() for one in listed if one.name == name]


def _own(own: Own) -> Listed:
    text = inspect.getdoc(own.function) or "It has no docstring."
    file = inspect.getsourcefile(inspect.unwrap(own.function))
    origin = shown_path(Path(file)) if file else ""
    known = own_parameters(own)
    filled = _filled(known, FILLED)
    settable = tuple(p for p in known if not any(p.name in names for names in filled.values()))
    return Listed(own.target, one_line(own.function), settable, origin, "", text, filled)


def _filled(known: Parameters, kinds: Collection[Kind]) -> dict[str, tuple[str, ...]]:
    """Return the parameters that are filled in, by what the function would have to make."""
    words = {"model": "a model", "data": "data"}
    found = {words[k]: tuple(p.name for p in known if p.name in FILLED[k]) for k in kinds}
    return {makes: names for makes, names in found.items() if names}
