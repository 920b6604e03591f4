"""What of a model travels: the arrays that clients train, and SCAFFOLD's control variate with them.

A control variate travels as further arrays of the model, ``maxfl-control/NAME``. A client sends
back c + (c_k⁺ − c_k) in their place, so that what it says of c is an update like any other:
checked, bounded and added up with it.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord

from maxfl.flower import keys
from maxfl.flower.config import StrategyConfig
from maxfl.flower.replies.arrays import Arrays, is_trained, to_arrays, to_record
from maxfl.utils.errors import InputError


class Outgoing(NamedTuple):
    """The model of a round.

    Attributes:
        received: As it came from Flower's loop.
        model: Its arrays.
        sent: Those that travel, with SCAFFOLD's control variate.
    """

    received: ArrayRecord
    model: Arrays
    sent: Arrays

    @property
    def record(self) -> ArrayRecord:
        """What travels; the record that came in, where that is all of it."""
        if list(self.sent) == list(self.received):
            return self.received
        return to_record(self.sent)

    def after(self, moved: Arrays) -> ArrayRecord:
        """Return the model with arrays that moved; what did not travel goes on as it came."""
        return ArrayRecord(
            {
                name: Array(moved[name]) if name in moved else array
                for name, array in self.received.items()
            }
        )


def outgoing(
    config: StrategyConfig, arrays: ArrayRecord, control: Arrays | None = None
) -> Outgoing:
    """Return what goes out of a model; to be trained by SCAFFOLD, with c, which begins at 0 if {}.

    Without ``control`` it goes out to be evaluated.
    """
    model = to_arrays(arrays)
    check_patterns("state_arrays", config.state_arrays, model)
    check_patterns("trained_arrays", config.trained_arrays, model)
    sent = trained_part(model, config.trained_arrays)
    if control is not None and config.corrects_drift:
        state = filter(config.is_state, sent)
        sent = with_control(sent, control or first_control(sent, state))
    return Outgoing(arrays, model, sent)


def check_names(option: str, patterns: object) -> tuple[str, ...] | None:
    """Return patterns for names of arrays, or refuse what is none."""
    if patterns is None:
        return None
    if isinstance(patterns, str) or not isinstance(patterns, Iterable):
        raise InputError(f'{option} = {patterns!r:.60}: expected a list, such as ["*.weight"]')
    found = tuple(patterns)
    if not all(isinstance(pattern, str) for pattern in found):
        raise InputError(f"{option} = {patterns!r:.60}: expected a list of strings")
    return found


def check_patterns(option: str, patterns: Iterable[str] | None, names: Iterable[str]) -> None:
    """Refuse patterns that no array of the model matches."""
    known = list(names)
    for pattern in patterns or ():
        if not any(fnmatchcase(name, pattern) for name in known):
            raise InputError(
                f"{option} has {pattern!r}, but the model's arrays are called "
                f"{', '.join(known[:8])}{', ...' if len(known) > 8 else ''}"
            )


def trained_part(model: Arrays, patterns: Iterable[str] | None) -> Arrays:
    """Return the arrays that clients train; all, where no patterns are given."""
    if patterns is None:
        return model
    chosen = tuple(patterns)
    return {
        name: array
        for name, array in model.items()
        if any(fnmatchcase(name, pattern) for pattern in chosen)
    }


def first_control(model: Arrays, is_state: Iterable[str]) -> Arrays:
    """Return c = 0 for the arrays that gradients train."""
    left_out = set(is_state)
    return {
        name: np.zeros(array.shape, np.result_type(array.dtype, np.float32))
        for name, array in model.items()
        if is_trained(array) and name not in left_out
    }


def with_control(model: Arrays, control: Arrays) -> Arrays:
    """Return the model with a control variate as further arrays."""
    return model | {f"{keys.CONTROL}{name}": array for name, array in control.items()}


def split_control(arrays: Arrays) -> tuple[Arrays, Arrays]:
    """Return the model and the control variate that travelled with it."""
    model = {name: array for name, array in arrays.items() if not is_control(name)}
    control = {
        name.removeprefix(keys.CONTROL): array for name, array in arrays.items() if is_control(name)
    }
    return model, control


def is_control(name: str) -> bool:
    """Return whether an array is one of a control variate."""
    return name.startswith(keys.CONTROL)
