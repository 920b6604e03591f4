"""Settings that are a word of a list, or the name of own code."""

from functools import partial
from typing import Any

from pydantic import ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from maxfl.runs.plugins.entry_points import Kind, find_target
from maxfl.runs.plugins.resolve import load


def own_or(kind: Kind) -> WrapValidator:
    """Take own code of a kind beside a list of words."""
    return WrapValidator(partial(take_own, kind))


def take_own(kind: Kind, value: Any, of_list: ValidatorFunctionWrapHandler) -> Any:
    """Take a word of a list, ``module:function``, or a short name of an installed package.

    A word of the list means what it always did, whatever packages call so.
    """
    try:
        return of_list(value)
    except ValidationError:
        target = find_target(value, kind)
        if target is None:
            raise
    load(target)
    return value
