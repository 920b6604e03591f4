"""The temperature of a method's weight."""

from collections.abc import Mapping
from typing import Any

from maxfl.algorithms import ALGORITHMS, annealed
from maxfl.report.names import NAME

WEIGHTED = ("maxfl", "maxfl-annealed")
"""Methods whose weight is q."""


def temperature(settings: Mapping[str, Any], done: int) -> float:
    """T of a method's weight after some rounds; 1 for methods that have none."""
    name = settings.get(NAME)
    if name not in WEIGHTED:
        return 1.0
    numbers = {k.removeprefix("algorithm."): v for k, v in settings.items()
               if k.startswith("algorithm.") and k != NAME and v is not None}  # fmt: skip
    hyper = ALGORITHMS[name](**numbers).hyper
    now = hyper.temperature if name == "maxfl" else annealed.temperature(hyper, done)
    return float(now)
