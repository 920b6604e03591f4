"""ρ_k: the loss that the global model must beat for client k to want it.

Usually that of a model which the client trains alone. ``Solo`` keeps only the measured losses and
metrics of those models, never the models, so memory does not grow with clients × model size.
"""

import threading
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxfl.core.federation import Federation
from maxfl.utils.errors import InputError, check_count, check_number


class Solo(NamedTuple):
    """How each client's model, trained alone, does on the client's own data, float32[..., K] each.

    Attributes:
        train_loss: On its training data.
        test_loss: Held out.
        test_metrics: Those of the model, held out, in their order.
    """

    train_loss: Any
    test_loss: Any
    test_metrics: tuple[Any, ...]

    @property
    def test_metric(self) -> Any:
        """The model's first metric, accuracy for classifiers."""
        return self.test_metrics[0]


class SoloCache:
    """Solo results shared between runs, so that none is trained twice, nor by two at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._known: dict[Any, Solo] = {}

    def get(self, key: Any, train: Callable[[], Solo]) -> Solo:
        """Return what is known by this key, else what ``train`` gives; hold the lock meanwhile."""
        if key not in self._known:
            self._known[key] = train()
        return self._known[key]


class Thresholds(NamedTuple):
    """What the global model must beat, float32[..., K].

    Attributes:
        train: ρ_k, against the training loss F_k(w): what a client can act on.
        test: Its held-out counterpart, against f_k(w).
    """

    train: Any
    test: Any


RequirementRule = Callable[[Federation, Solo], ArrayLike]


class Requirement(NamedTuple):
    """How ρ_k comes about. Build it with ``solo``, ``fixed`` or ``custom``.

    Attributes:
        steps: SGD steps of the solo models, with the training's own batch size and η_l.
        multiple: ρ_k as a multiple of the solo loss.
        loss: If given, ρ_k is this loss for every client.
        rule: If given, ``rule(federation, solo) -> ρ[K]``.
    """

    steps: int = 100
    multiple: ArrayLike = 1.0
    loss: ArrayLike | None = None
    rule: RequirementRule | None = None


def solo(multiple: ArrayLike = 1.0, steps: int = 100) -> Requirement:
    """Require ``multiple`` times the loss of a model that client k trains alone (paper: 1)."""
    check_number("requirement.multiple", multiple, above=0)
    check_count("requirement.steps", steps, least=0)
    return Requirement(steps=steps, multiple=multiple)


def fixed(loss: ArrayLike, steps: int = 100) -> Requirement:
    """Require one loss for all clients; solo models are still trained, to compare with."""
    check_number("requirement.loss", loss, least=0)
    check_count("requirement.steps", steps, least=0)
    return Requirement(steps=steps, loss=loss)


def custom(rule: RequirementRule, steps: int = 100) -> Requirement:
    """Require ρ = ``rule(federation, solo)``, one number per client.

    ``solo`` has ``train_loss``, ``test_loss`` and ``test_metric``, the first of the model's metrics
    (accuracy for classifiers), of the solo models, [K] each.
    """
    if not callable(rule):
        raise InputError(f"requirement.custom({rule!r}): expected a function of (federation, solo)")
    check_count("requirement.steps", steps, least=0)
    return Requirement(steps=steps, rule=rule)


def thresholds(
    requirement: Requirement, federation: Federation, solo: Solo, configurations: int
) -> Thresholds:
    """Return thresholds of every configuration, float32[C, K], from solo results [C, K]."""
    shape = (configurations, federation.clients)
    if requirement.rule is not None:
        each = [jax.tree.map(itemgetter(c), solo) for c in range(configurations)]
        rows = [_apply(requirement.rule, federation, one) for one in each]
        return Thresholds(np.stack(rows), np.stack(rows))
    if requirement.loss is not None:
        row = _column(requirement.loss, shape)
        return Thresholds(row, row)
    factor = _column(requirement.multiple, shape)
    return Thresholds(factor * solo.train_loss, factor * solo.test_loss)


def _column(numbers: ArrayLike, shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return one number per configuration, repeated for its clients."""
    column = np.broadcast_to(np.asarray(numbers, np.float32), shape[:1])
    return np.broadcast_to(column[:, None], shape)


def _apply(rule: RequirementRule, federation: Federation, solo: Solo) -> NDArray[np.float32]:
    """Call a user's rule and check what it gives."""
    given = rule(federation, solo)
    try:
        rho = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        raise InputError(f"the requirement's rule gave {given!r}; expected numbers") from None
    if rho.shape != (federation.clients,) or np.isnan(rho).any():
        raise InputError(
            f"the requirement's rule gave an array of shape {rho.shape} with "
            f"{int(np.isnan(rho).sum())} NaN; expected one number for each of the "
            f"{federation.clients} clients"
        )
    return rho
