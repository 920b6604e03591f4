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
METRICS = {
    "gm_appeal": "GM-Appeal",
    "test_accuracy": "test accuracy",
    "preferred_accuracy": "preferred-model accuracy",
    "willing": "willing clients",
}
NAME = "algorithm.name"


def method_name(settings: Mapping[str, Any]) -> str:
    """What the method is called."""
    name = str(settings.get(NAME, "the model"))
    return METHODS.get(name, name)


def label_of(settings: Mapping[str, Any], differing: Sequence[str]) -> str:
    """The method, and the values of its settings that differ among those shown."""
    more = [
        f"{key.rpartition('.')[2].replace('_', ' ')} {settings[key]}"
        for key in differing
        if key != NAME and settings.get(key) is not None
    ]
    return ", ".join([method_name(settings), *more])
