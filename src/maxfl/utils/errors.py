"""The one exception for input that a user can correct, and the checks that raise it.

NumPy is loaded where numbers are checked, so that a command can report a mistake without it.
"""

from collections.abc import Iterable
from math import inf, isfinite
from numbers import Integral
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Choice = TypeVar("Choice", bound=str)


class InputError(ValueError):
    """Something given by the user is wrong; the message says what, where, and what to do."""


class TrainingWarning(UserWarning):
    """Training goes on, but its result will mean little; the message says why."""


class DiskFullError(InputError):
    """The disk is too small for what was asked."""


class OutOfMemoryError(InputError):
    """The memory of the machine or a device is too small for what was asked."""


def check_number(
    name: str,
    value: "ArrayLike",
    *,
    least: float = -inf,
    above: float = -inf,
    below: float = inf,
    most: float = inf,
    whole: bool = False,
) -> None:
    """Refuse a number, or an array of numbers, that is not finite or outside its range."""
    import numpy as np

    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} = {value!r} is not a number") from None
    limits = [
        f"at least {_show(least)}" if isfinite(least) else "",
        f"above {_show(above)}" if isfinite(above) else "",
        f"below {_show(below)}" if isfinite(below) else "",
        f"at most {_show(most)}" if isfinite(most) else "",
    ]
    kind = "a whole number" if whole else "a finite number"
    bad = ~np.isfinite(numbers) | (numbers < least) | (numbers <= above)
    bad |= (numbers >= below) | (numbers > most)
    if whole:
        bad |= numbers != np.floor(numbers)
    if bad.any():
        bounds = " and ".join(filter(None, limits))
        first = np.atleast_1d(numbers)[np.atleast_1d(bad)][0]
        raise InputError(
            f"{name} = {_show(first)}: expected {kind}{' ' + bounds if bounds else ''}"
        )


def check_count(name: str, value: object, *, least: int) -> None:
    """Refuse anything but one whole number; it shapes a program, so it can't be an array."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} = {value!r}: expected one whole number at least {least}")


def check_choice(name: str, value: Choice, choices: Iterable[str]) -> Choice:
    """Refuse anything but one of some words, and return it."""
    if value not in (words := list(choices)):
        raise InputError(f"{name} = {value!r}: expected one of {', '.join(words)}")
    return value


def _show(number: float) -> str:
    """Write a number as a person does: whole ones with all their digits."""
    return f"{number:.15g}"
