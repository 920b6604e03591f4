"""How clients train alone: the steps, learning rates and batch sizes of their solo models."""

from collections.abc import Iterator
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.utils.display import numbers
from maxfl.utils.errors import InputError, check_number, shorten

RATES = (0.1, 0.01, 0.001)
"""Learning rates that a client tries alone, unless told otherwise: one of them suits most."""
BATCH_SIZE = 32
TRAINING: Literal["training"] = "training"
"""In place of a learning rate or a batch size: that of the run."""
DIFFERING = "what clients require differs between configurations: their solo models are"
MOVING = f"{DIFFERING} trained with"
MOVING_LOCAL = f"{MOVING} the local optimizer (local.*), in which these differ"
MOVING_JUDGING = (
    f"{DIFFERING} trained on, and judged by, other parts of their data (requirement.judge, "
    f"requirement.judge_fraction). Whom two of these satisfy can't be compared client by client"
)
"""What a run says where requirements move with what is compared."""
FOLLOWING = ("local_lr", "batch_size")
"""What solo models may have from the run's training."""
EXPECTED = {
    "steps": "a whole number at least 0, or a list of them above 0",
    "local_lr": f'a number above 0, a list of them, or "{TRAINING}" for the run\'s own',
    "batch_size": f'a whole number above 0, a list of them, or "{TRAINING}" for the run\'s own',
}
"""What each setting of solo models may be, in words."""


class SoloTraining(NamedTuple):
    """How clients train alone: where there are several ways, each keeps its best model.

    Attributes:
        steps: SGD steps.
        local_lr: Learning rates, each a number or, in a sweep, one per configuration, float[C];
            None for the run's own.
        batch_size: Batch sizes; None for the run's own.
    """

    steps: tuple[int, ...] = (100,)
    local_lr: tuple[Any, ...] | None = RATES
    batch_size: tuple[int, ...] | None = (BATCH_SIZE,)

    @property
    def ways(self) -> Iterator[tuple[int, Any, int | None]]:
        """Every combination of steps, learning rate and batch size."""
        return product(self.steps, self.local_lr or (None,), self.batch_size or (None,))

    @property
    def follows_training(self) -> bool:
        """Whether what clients require changes with the run's learning rate or batch size."""
        return bool(self.followed)

    @property
    def followed(self) -> tuple[str, ...]:
        """Numbers that solo models have from the run's training."""
        return tuple(name for name in FOLLOWING if getattr(self, name) is None)

    @property
    def changed(self) -> list[str]:
        """Names of what differs from the defaults."""
        plain = SoloTraining()._asdict()
        return [name for name, ways in self._asdict().items() if repr(ways) != repr(plain[name])]

    def written(self, name: str) -> str:
        """Write one of these as it would be given: a number, a list, or "training"."""
        ways = getattr(self, name)
        if ways is None:
            return repr(TRAINING)
        return numbers(ways[0] if len(ways) == 1 else ways)

    def wasteful_batches(self, sizes: NDArray[np.int64], names: NDArray[Any]) -> list[str]:
        """Say which batch sizes exceed all that any client trains on, of ``sizes`` samples, [K]."""
        largest = int(np.argmax(sizes))
        most = max(int(sizes[largest]), BATCH_SIZE)
        return [
            f"requirement.batch_size = {size}, and the largest client ({names[largest]}) trains on "
            f"{sizes[largest]} samples: minibatches are drawn with replacement, so that larger "
            f"ones take longer and tell little more; {most} or less will do"
            for size in self.batch_size or ()
            if size > most
        ]

    def moving_words(self) -> str:
        """Say what a sweep of these numbers of the training does to requirements."""
        theirs = " and ".join(f"training.{name}" for name in self.followed)
        own = " and ".join(f"requirement.{name}" for name in self.followed)
        return (
            f"{MOVING} {theirs}, in which these differ. For the same requirements everywhere, set "
            f"{own} to numbers"
        )


def learning_rates(given: Any) -> tuple[Any, ...] | None:
    """Return learning rates of solo models; None for the run's own."""
    if isinstance(given, str) and given == TRAINING:
        return None
    _check_ways("local_lr", given, most_axes=2)
    check_number("requirement.local_lr", given, above=0)
    rates = np.asarray(given, np.float64)
    return tuple(rates) if rates.ndim > 1 else tuple(float(rate) for rate in np.ravel(rates))


def batch_sizes(given: Any) -> tuple[int, ...] | None:
    """Return batch sizes of solo models; None for the run's own."""
    if isinstance(given, str) and given == TRAINING:
        return None
    return _whole_numbers("batch_size", given, least=1)


def step_counts(given: Any) -> tuple[int, ...]:
    """Return numbers of steps of solo models; of several, none may leave its model untrained."""
    steps = _whole_numbers("steps", given, least=0)
    if are_untrained(steps):
        raise InputError(f"requirement.steps = {shorten(given)}: expected {EXPECTED['steps']}")
    return steps


def are_untrained(ways: tuple[Any, ...]) -> bool:
    """Tell whether a client would try, among several models, one that has made no step."""
    return len(ways) > 1 and 0 in ways


def _whole_numbers(name: str, given: Any, least: int) -> tuple[int, ...]:
    """Return whole numbers, of which each is another way to train alone."""
    _check_ways(name, given)
    check_number(f"requirement.{name}", given, least=least, whole=True)
    return tuple(int(number) for number in np.ravel(given))


def _check_ways(name: str, given: Any, most_axes: int = 1) -> None:
    """Refuse what is neither a number nor some in a list, or in lists of one length."""
    try:
        values = np.asarray(given, np.float64)
        flags = [isinstance(each, bool | np.bool_) for each in np.ravel(np.asarray(given, object))]
    except (TypeError, ValueError, OverflowError):
        values, flags = np.zeros(0), []
    if values.ndim > most_axes or not values.size or any(flags):
        raise InputError(f"requirement.{name} = {shorten(given)}: expected {EXPECTED[name]}")
