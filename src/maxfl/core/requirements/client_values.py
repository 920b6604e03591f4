"""Requirements that single clients state themselves, by name or in order."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.utils.errors import InputError

Floats = NDArray[np.float32]


class ClientValues(NamedTuple):
    """Requirements of single clients.

    Attributes:
        names: Of the clients, as texts; None where there is one value for every client, in order.
        judging: ρ_k, float32[n]; NaN for a client that has none of its own.
        test: Its counterpart for test data, likewise.
    """

    names: tuple[str, ...] | None
    judging: Floats
    test: Floats

    def digest(self) -> str:
        """Return SHA-256 of names and values."""
        sha = hashlib.sha256(repr(self.names).encode())
        sha.update(self.judging.tobytes() + self.test.tobytes())
        return sha.hexdigest()


def client_values(values: Any, test: Any) -> ClientValues:
    """Return what a user gave for single clients, as arrays."""
    if isinstance(values, Mapping) != isinstance(test, Mapping) and test is not None:
        raise InputError("per_client: give values and test= both by name, or both in order")
    if not isinstance(values, Mapping):
        judging = _numbers("values", values)
        tested = judging if test is None else _numbers("test", test)
        if tested.shape != judging.shape:
            raise InputError(
                f"per_client has {len(judging)} values and {len(tested)} for test data (test=): "
                f"give as many of both"
            )
        return ClientValues(None, judging, tested)
    by_name = {str(name): value for name, value in values.items()}
    other = by_name if test is None else {str(name): v for name, v in test.items()}
    names = tuple(dict.fromkeys((*by_name, *other)))
    sides = (
        _numbers(what, [side.get(name, np.nan) for name in names])
        for what, side in (("values", by_name), ("test", other))
    )
    return ClientValues(names, *sides)


def _numbers(what: str, given: Any) -> Floats:
    """Return numbers of clients, float32[n]; NaN, or None, for none."""
    try:
        numbers = np.asarray(given, np.float64).astype(np.float32)
    except (TypeError, ValueError):
        raise InputError(f"per_client: {what} = {given!r:.80}: expected numbers") from None
    if numbers.ndim != 1 or not numbers.size or np.isinf(numbers).any():
        raise InputError(
            f"per_client: {what} has shape {numbers.shape}; expected a finite number, or NaN, for "
            f"each client"
        )
    return numbers
