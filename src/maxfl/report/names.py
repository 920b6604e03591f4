"""Names for people: methods, settings and metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

METHODS = {
    "fedavg": "FedAvg",
    "maxfl": "MaxFL",
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
}
NAME = "algorithm.name"
UNTOLD = ("training.evaluate_every", "training.block")
"""Settings that change no model."""


def method_name(settings: Mapping[str, Any]) -> str:
    """What the method is called."""
    name = str(settings.get(NAME, "the model"))
    return METHODS.get(name, name)


def label_of(settings: Mapping[str, Any], differing: Sequence[str]) -> str:
    """The method, and the values of its settings that differ among those shown, zeros apart."""
    more = [
        f"{_words(key)} {settings[key]}"
        for key in differing
        if key not in (NAME, *UNTOLD) and settings.get(key)
    ]
    named = [method_name(settings)] if NAME in settings or not more else []
    return ", ".join([*named, *more])


def _words(key: str) -> str:
    """A setting for people; those of a method and of training need no section."""
    section, _, name = key.rpartition(".")
    words = name if section in ("", "algorithm", "training") else f"{section} {name}"
    return words.replace("_", " ")
