"""The methods, by name. A new one is a file beside these and a line here."""

from collections.abc import Callable

from maxfl.algorithms.contract import Algorithm
from maxfl.algorithms.fedavg import fedavg
from maxfl.algorithms.maxfl import maxfl

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "fedavg": fedavg,
    "maxfl": maxfl,
}

__all__ = ["ALGORITHMS", "Algorithm", "fedavg", "maxfl"]
