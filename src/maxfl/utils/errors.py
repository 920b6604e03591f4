"""The one exception for input that a user can correct, and the checks that raise it.

NumPy is loaded where numbers are checked, so that a command can report a mistake without it.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from math import inf, isfinite
from numbers import Integral
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Choice = TypeVar("Choice", bound=str)
MOST_WHOLE = 2**31 - 1
"""Whole numbers are int32 in training."""


class InputError(ValueError):
    """Something given by the user is wrong; the message says what, where, and what to do."""


class TrainingWarning(UserWarning):
    """Training goes on, but its result will mean little; the message says why."""


class SpeedWarning(UserWarning):
    """Something that could be computed several times as fast, and how."""


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
    """Refuse a number, or an array of numbers, that is not finite or outside its range.

    It must be in its range as training computes with it: a float32, or an int32 if it is whole and
    no other limit is given.
    """
    import numpy as np

    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} = {shorten(value)} is not a number") from None
    if whole and not isfinite(min(below, most)):
        most = MOST_WHOLE
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
    if not whole:
        _check_float32(name, np.atleast_1d(numbers), above, below)


def _check_float32(name: str, numbers: "NDArray[np.float64]", above: float, below: float) -> None:
    """Refuse numbers that are in range, but not as a float32: too large, too small, rounded."""
    import numpy as np

    single, size = np.finfo(np.float32), np.abs(numbers)
    with np.errstate(over="ignore"):
        rounded = numbers.astype(np.float32)
    rounded = np.where((size > 0) & (size < single.tiny), 0, rounded)  # devices flush such to 0
    lost = ~np.isfinite(rounded) | ((rounded == 0) & (size > 0))
    lost |= (rounded <= np.float32(above)) | (rounded >= np.float32(below))
    if lost.any():
        first, becomes = numbers[lost][0], rounded[lost][0]
        limit = f"at most {single.max:.2g}" if np.isinf(becomes) else f"{single.tiny:.2g} or more"
        expected = f"; expected {limit}" if np.isinf(becomes) or becomes == 0 else ""
        raise InputError(
            f"{name} = {_show(first)}: training computes in float32, where that is "
            f"{'infinite' if np.isinf(becomes) else _show(float(becomes))}{expected}"
        )


def check_count(name: str, value: object, *, least: int, most: int = MOST_WHOLE) -> None:
    """Refuse anything but one whole number; it shapes a program, so it can't be an array."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or not least <= value <= most:  # type: ignore[operator]
        raise InputError(
            f"{name} = {shorten(value)}: expected one whole number from {least} to {most}"
            if is_whole and value > most  # type: ignore[operator]
            else f"{name} = {shorten(value)}: expected one whole number at least {least}"
        )


def check_choice(name: str, value: Choice, choices: Iterable[str]) -> Choice:
    """Refuse anything but one of some words, and return it."""
    words = list(choices)
    if not isinstance(value, str) or value not in words:
        raise InputError(
            f"{name} = {shorten(value)}: expected one of {', '.join(words)}"
            f"{did_you_mean(value, words)}"
        )
    return value


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return a question that names the known words near to one, "" if none is."""
    if not isinstance(word, str):
        return ""
    by_lower: dict[str, list[str]] = {}
    for name in known:
        by_lower.setdefault(name.lower(), []).append(name)
    matches = get_close_matches(word.lower(), by_lower, n=2, cutoff=0.75)
    near = [name for match in matches for name in by_lower[match]][:2]
    return f". Did you mean {' or '.join(map(repr, near))}?" if near else ""


def _show(number: float) -> str:
    """Write a number as a person does: whole ones with all their digits."""
    return f"{number:.15g}"


def shorten(value: object, most: int = 60) -> str:
    """Write a value in not too many characters; an integer may have too many digits to write."""
    try:
        text = repr(value)
    except ValueError:
        return "an integer of thousands of digits"
    return text if len(text) <= most else f"{text[: most - 3]}..."
