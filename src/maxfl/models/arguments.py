"""Checks of the arguments that factories of models share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxfl.utils.errors import InputError, check_count, check_number


def check_dropout(dropout: float) -> float:
    """Return a rate of dropout, at least 0 and below 1."""
    if np.ndim(dropout) != 0:
        raise InputError(f"dropout = {dropout!r}: expected one number, it is part of the program")
    check_number("dropout", dropout, least=0, below=1)
    return float(dropout)


def check_widths(name: str, widths: Any, what: str, *, least: int = 0) -> tuple[int, ...]:
    """Return the widths of some layers, at least so many of them; ``what`` says what they are."""
    if not isinstance(widths, Sequence) or isinstance(widths, str) or len(widths) < least:
        raise InputError(f"{name} = {widths!r}: expected {what}, as (64, 30)")
    for width in widths:
        check_count(f"model.{name}", width, least=1)
    return tuple(int(width) for width in widths)


def check_image_shape(shape: Any) -> tuple[int, int, int]:
    """Return (height, width, channels); one channel where there are two numbers."""
    if not isinstance(shape, Sequence) or len(shape) not in (2, 3):
        raise InputError(
            f"shape = {shape!r}: expected (height, width) or (height, width, channels) of an image"
        )
    for side in shape:
        check_count("shape", side, least=1)
    height, width, channels = (*shape, 1)[:3]
    return int(height), int(width), int(channels)
