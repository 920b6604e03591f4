"""Names for people: methods, settings and metrics."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

METHODS = {
    "fedavg": "FedAvg",
    "maxfl": "MaxFL",
    "maxfl-auto": "MaxFL auto",
    "maxfl-annealed": "MaxFL, annealed",
    "maxfl-relu": "MaxFL, ReLU",
    "maxfl-log": "MaxFL, log",
    "maxfl-exponential": "MaxFL, exponential",
    "fedprox": "FedProx",
    "scaffold": "SCAFFOLD",
    "scaffold-1": "SCAFFOLD, option I",
    "perfedavg": "Per-FedAvg",
    "perfedavg-hf": "Per-FedAvg, Hessian-free",
    "qffl": "q-FFL",
    "afl": "AFL",
    "mwfed": "MW-Fed",
    "pfedme": "pFedMe",
    "ditto": "Ditto",
    "ifca": "IFCA",
    "hypcluster": "HypCluster",
}
NAME = "algorithm.name"
UNNAMED = ("training.evaluate_every", "training.checkpoint_every")
"""Settings that change no model."""


def method_name(settings: Mapping[str, Any], among: Collection[str] = ()) -> str:
    """Return what the method is called.

    Own code, ``module:function``, is called as the function is, unless that of another module is
    called so too: ``among`` has the names of all methods that are shown together.
    """
    name = str(settings.get(NAME, "the model"))
    short = name.rpartition(":")[2]
    if any(other != name and other.rpartition(":")[2] == short for other in among):
        return METHODS.get(name, name)
    return METHODS.get(name, short)


def model_name(method: str, model: str) -> str:
    """Name a method with the model that its clients use, where that is not the global one."""
    return f"{method} (personal models)" if model == "personal" else method


def label_of(
    settings: Mapping[str, Any], differing: Sequence[str], among: Collection[str] = ()
) -> str:
    """Name the method, one of several, and those of its settings that differ from the others'."""
    others = [
        _setting_words(key, settings[key])
        for key in differing
        if key not in (NAME, *UNNAMED) and settings.get(key) is not None
    ]
    method = [method_name(settings, among)] if NAME in settings or not others else []
    return ", ".join([*method, *others])


def _setting_words(key: str, value: Any) -> str:
    if key == "portfolio.models":
        return f"{value} model{'s' if value != 1 else ''}"
    return f"{setting_name(key)} {value}"


def setting_name(key: str) -> str:
    """Write a setting for people; those of a method and of training need no section."""
    section, _, name = key.rpartition(".")
    words = name if section in ("", "algorithm", "training") else f"{section} {name}"
    return words.replace("_", " ")
