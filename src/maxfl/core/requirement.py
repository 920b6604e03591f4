"""ρ_k: what the global model must beat for client k to want it.

Usually the loss of a model which the client trains alone. ``Solo`` keeps only the measured losses
and metrics of those models, never the models, so memory does not grow with clients × model size.
"""

import hashlib
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxfl.core.federation import Federation
from maxfl.utils.display import numbers, one_line
from maxfl.utils.errors import InputError, check_count, check_number

Floats = NDArray[np.float32]


class Solo(NamedTuple):
    """How each client's model, trained alone, does on the client's own data, float32[..., K] each.

    Attributes:
        train_loss: On its training data.
        test_loss: Held out.
        test_metrics: Those of the model, held out, in their order.
        train_metric: On its training data, the metric that the requirement is about; () where that
            is the loss.
    """

    train_loss: Any
    test_loss: Any
    test_metrics: tuple[Any, ...]
    train_metric: Any = ()

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
    """What the global model must beat, float32[..., K]: losses, or values of the metric.

    Attributes:
        train: ρ_k, against training data: what a client can act on.
        test: Its held-out counterpart.
    """

    train: Any
    test: Any


class ClientValues(NamedTuple):
    """Requirements of single clients.

    Attributes:
        names: Of the clients, as texts; None where there is one value for every client, in order.
        train: ρ_k, float32[n]; NaN for a client that has none of its own.
        test: Its held-out counterpart, likewise.
    """

    names: tuple[str, ...] | None
    train: Floats
    test: Floats

    def digest(self) -> str:
        """Return SHA-256 of names and values."""
        sha = hashlib.sha256(repr(self.names).encode())
        sha.update(self.train.tobytes() + self.test.tobytes())
        return sha.hexdigest()


RequirementRule = Callable[[Federation, Solo], ArrayLike | tuple[ArrayLike, ArrayLike]]


class Requirement(NamedTuple):
    """How ρ_k comes about: see ``solo``, ``fixed``, ``metric``, ``per_client``, ``custom``.

    Attributes:
        steps: SGD steps of the solo models, with the training's own batch size and η_l.
        multiple: ρ_k as a multiple of the solo model's value.
        value: If given, ρ_k is this for every client: a loss, or a value of the metric.
        rule: If given, ``rule(federation, solo) -> ρ[K]`` or a pair of such.
        metric: The metric that decides, by name; None for the loss.
        clients: If given, what single clients require; the rest is for those without.
        has_rest: Whether there is a requirement for those without.
    """

    steps: int = 100
    multiple: ArrayLike = 1.0
    value: ArrayLike | None = None
    rule: RequirementRule | None = None
    metric: str | None = None
    clients: ClientValues | None = None
    has_rest: bool = True

    def __repr__(self) -> str:
        """Return how it would be written."""
        return one_line(self.kind if self.clients is None else "per_client", self._words)

    def _words(self) -> str:
        metric = "" if self.metric is None else f", metric={self.metric!r}"
        match self.kind:
            case "custom":
                words = f"{getattr(self.rule, '__qualname__', 'rule')}{metric}"
            case "fixed":
                words = numbers(self.value)
            case "metric":
                words = f"{self.metric!r}, {numbers(self.value)}"
            case _:
                words = f"{numbers(self.multiple)}, steps={self.steps}{metric}"
        if self.clients is None:
            return words
        own = int(np.isfinite(self.clients.train).sum())
        rest = f", otherwise={self.kind}({words})" if self.has_rest else ""
        return f"{own} values{metric}{rest}"

    @property
    def numbers(self) -> tuple[ArrayLike, ArrayLike | None]:
        """What can vary within a sweep."""
        return self.multiple, self.value

    @property
    def kind(self) -> str:
        """What decides for clients that state nothing themselves, in a word."""
        if self.rule is not None:
            return "custom"
        if self.value is None:
            return "solo"
        return "fixed" if self.metric is None else "metric"


def solo(multiple: ArrayLike = 1.0, steps: int = 100, *, metric: str | None = None) -> Requirement:
    """Require ``multiple`` times the loss of a model that client k trains alone (paper: 1).

    With ``metric``, by name, that model's metric takes the place of its loss.
    """
    check_number("requirement.multiple", multiple, above=0)
    check_count("requirement.steps", steps, least=0)
    _check_name(metric)
    return Requirement(steps=steps, multiple=multiple, metric=metric)


def fixed(loss: ArrayLike, steps: int = 100) -> Requirement:
    """Require one loss for all clients; solo models are still trained, to compare with.

    An array makes a sweep; for a loss for each client see ``per_client``.
    """
    check_number("requirement.loss", loss, least=0)
    check_count("requirement.steps", steps, least=0)
    return Requirement(steps=steps, value=loss)


def metric(name: str, value: ArrayLike, steps: int = 100) -> Requirement:
    """Require one value of a metric of the model: at least 0.8 accuracy, at most 0.3 ``mae``.

    Which of both the metric says: whether more of it is better. It then decides who is satisfied
    and who participates, and MaxFL weighs clients by its gap, with a temperature in its units;
    what is trained is still the loss.
    """
    if name is None:
        raise InputError('requirement.metric: name one, as maxfl.metric("accuracy", 0.8)')
    _check_name(name)
    check_number("requirement.value", value)
    check_count("requirement.steps", steps, least=0)
    return Requirement(steps=steps, value=value, metric=name)


def per_client(
    values: Mapping[Any, Any] | ArrayLike,
    held_out: Mapping[Any, Any] | ArrayLike | None = None,
    *,
    metric: str | None = None,
    otherwise: Requirement | None = None,
    steps: int | None = None,
) -> Requirement:
    """Require of each client its own loss, or its own value of a metric.

    Args:
        values: A number for each client, in the federation's order, or by its name; NaN, or a name
            that is left out, for a client that has none.
        held_out: Likewise, for held-out data; by default the same values.
        metric: The metric that they are values of; by default they are losses.
        otherwise: What clients without a value require, of the same metric.
        steps: SGD steps of the solo models; by default those of ``otherwise``.
    """
    _check_name(metric)
    if steps is not None:
        check_count("requirement.steps", steps, least=0)
    clients = _client_values(values, held_out)
    if metric is None and min(np.nanmin(side, initial=0.0) for side in clients[1:]) < 0:
        raise InputError("per_client: some values are below 0, which no loss is: correct them")
    rest = Requirement() if otherwise is None else otherwise
    if not isinstance(rest, Requirement) or rest.clients is not None:
        raise InputError(
            f"per_client(..., otherwise={otherwise!r:.60}): expected solo(), fixed(...), "
            f"metric(...) or custom(...)"
        )
    states_other = rest.value is not None or rest.rule is not None or rest.metric is not None
    if states_other and rest.metric != metric:
        raise InputError(
            f"per_client: values are {_of(metric)} and those without one require "
            f"{_of(rest.metric)}: a run has one that decides; say the same metric for both"
        )
    return rest._replace(
        steps=rest.steps if steps is None else steps, metric=metric, clients=clients,
        has_rest=otherwise is not None,
    )  # fmt: skip


def custom(rule: RequirementRule, steps: int = 100, *, metric: str | None = None) -> Requirement:
    """Require ρ = ``rule(federation, solo)``: one number per client, or a tuple of two such arrays.

    Of a tuple the second is for held-out data. ``solo`` has ``train_loss``, ``test_loss`` and
    ``test_metric``, the first of the model's metrics (accuracy for classifiers), of the solo
    models, [K] each; with ``metric``, by name, ρ are values of it, and there is ``train_metric``.
    """
    if not callable(rule):
        raise InputError(f"requirement.custom({rule!r}): expected a function of (federation, solo)")
    _check_signature(rule)
    check_count("requirement.steps", steps, least=0)
    _check_name(metric)
    return Requirement(steps=steps, rule=rule, metric=metric)


def _check_signature(rule: RequirementRule) -> None:
    """Refuse a rule that does not take (federation, solo)."""
    try:
        takes = inspect.signature(rule)
    except (TypeError, ValueError):  # some that are written in C do not tell
        return
    try:
        takes.bind(None, None)
    except TypeError:
        name = f"{rule.__module__}:{getattr(rule, '__qualname__', type(rule).__qualname__)}"
        raise InputError(
            f"requirement.custom: the rule {name} takes {takes}; expected a function of "
            f"(federation, solo)"
        ) from None


def _client_values(values: Any, held_out: Any) -> ClientValues:
    """Return what a user gave for single clients, as arrays."""
    if isinstance(values, Mapping) != isinstance(held_out, Mapping) and held_out is not None:
        raise InputError("per_client: give values and held_out both by name, or both in order")
    if not isinstance(values, Mapping):
        train = _numbers("values", values)
        test = train if held_out is None else _numbers("held_out", held_out)
        if test.shape != train.shape:
            raise InputError(
                f"per_client has {len(train)} values and {len(test)} held_out: as many of both"
            )
        return ClientValues(None, train, test)
    by_name = {str(name): value for name, value in values.items()}
    other = by_name if held_out is None else {str(name): v for name, v in held_out.items()}
    names = tuple(dict.fromkeys((*by_name, *other)))
    sides = (
        _numbers(what, [side.get(name, np.nan) for name in names])
        for what, side in (("values", by_name), ("held_out", other))
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


def _of(metric: str | None) -> str:
    return "losses" if metric is None else f"values of {metric}"


def _check_name(metric: Any) -> None:
    """Refuse anything but the name of a metric."""
    if metric is not None and not isinstance(metric, str):
        raise InputError(
            f"requirement.metric = {metric!r:.60}: expected the name of one of the model's "
            f'metrics, such as "accuracy"'
        )
