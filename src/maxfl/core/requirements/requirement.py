"""ρ_k: what the global model must beat for client k to want it.

Usually the loss of a model which the client trains alone. ``Solo`` keeps only the measured losses
and metrics of those models, never the models, so memory does not grow with clients × model size.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from maxfl.core.federation import Federation
from maxfl.core.judging import Judge, Judging, judging
from maxfl.core.requirements.client_values import ClientValues, client_values
from maxfl.core.requirements.solo_training import (
    SoloTraining,
    batch_sizes,
    learning_rates,
    step_counts,
)
from maxfl.utils.display import numbers, one_line
from maxfl.utils.errors import InputError, check_number, did_you_mean


class Solo(NamedTuple):
    """How each client's model, trained alone, does on the client's own data, float32[..., K] each.

    Attributes:
        judging_loss: On the data that it judges by.
        test_loss: On its test data.
        test_metrics: Those of the model on its test data, in their order.
        judging_metric: On the data that it judges by, the metric that the requirement is about; ()
            where that is the loss.
    """

    judging_loss: Any
    test_loss: Any
    test_metrics: tuple[Any, ...]
    judging_metric: Any = ()

    @property
    def test_metric(self) -> Any:
        """The model's first metric, accuracy for classifiers."""
        return self.test_metrics[0]


class Thresholds(NamedTuple):
    """What the global model must beat, float32[..., K]: losses, or values of the metric.

    Attributes:
        judging: ρ_k, against the data that a client judges by: what it can act on.
        test: Its counterpart for test data: what is reported.
    """

    judging: Any
    test: Any


class Options(TypedDict, total=False):
    """What may be said of every requirement.

    Attributes:
        local_lr: Learning rate of solo models; of a list, each client keeps the best of its models
            by the data that it judges by; "training" for the run's own. A list of arrays has in
            each of them one rate per configuration of a sweep.
        batch_size: Batch size of solo models, likewise.
        judge: What clients judge by: "held-out", samples that they hold out from training, or
            "training", their training data, as in the paper.
        judge_fraction: Of its training data, that a client holds out.
    """

    local_lr: ArrayLike | Literal["training"]
    batch_size: ArrayLike | Literal["training"]
    judge: Judge
    judge_fraction: float


RequirementRule = Callable[[Federation, Solo], ArrayLike | tuple[ArrayLike, ArrayLike]]


class Requirement(NamedTuple):
    """How ρ_k comes about: see ``solo``, ``fixed``, ``metric``, ``per_client``, ``custom``.

    Attributes:
        training: How solo models are trained.
        multiple: ρ_k as a multiple of the solo model's value.
        value: If given, ρ_k is this for every client: a loss, or a value of the metric.
        rule: If given, ``rule(federation, solo) -> ρ[K]`` or a pair of such.
        metric: The metric that decides, by name; None for the loss.
        clients: If given, what single clients require; the rest is for those without.
        has_rest: Whether there is a requirement for those without.
        judging: The data that clients judge by.
    """

    training: SoloTraining = SoloTraining()
    multiple: ArrayLike = 1.0
    value: ArrayLike | None = None
    rule: RequirementRule | None = None
    metric: str | None = None
    clients: ClientValues | None = None
    has_rest: bool = True
    judging: Judging = Judging()

    def __repr__(self) -> str:
        """Return how it would be written."""
        return one_line(self.kind if self.clients is None else "per_client", self._words)

    def _words(self) -> str:
        metric = [] if self.metric is None else [f"metric={self.metric!r}"]
        match self.kind:
            case "custom":
                words = [getattr(self.rule, "__qualname__", "rule"), *metric]
            case "fixed":
                words = [numbers(self.value)]
            case "metric":
                words = [repr(self.metric), numbers(self.value)]
            case _:
                words = [numbers(self.multiple), f"steps={self.training.written('steps')}", *metric]
        options = [
            *(f"{name}={self.training.written(name)}" for name in self.training.changed
              if not (name == "steps" and self.kind == "solo")),
            *self.judging.words(),
        ]  # fmt: skip
        if self.clients is None:
            return ", ".join([*words, *options])
        own = f"{int(np.isfinite(self.clients.judging).sum())} values"
        if not self.has_rest:
            return ", ".join([own, *metric, *options])
        return ", ".join([own, *metric, f"otherwise={self.kind}({', '.join([*words, *options])})"])

    @property
    def numbers(self) -> tuple[ArrayLike, ArrayLike | None]:
        """What thresholds can have their own of in every configuration of a sweep."""
        return self.multiple, self.value

    @property
    def kind(self) -> str:
        """What decides for clients that state nothing themselves, in a word."""
        if self.rule is not None:
            return "custom"
        if self.value is None:
            return "solo"
        return "fixed" if self.metric is None else "metric"


def solo(
    multiple: ArrayLike = 1.0,
    steps: ArrayLike = 100,
    *,
    metric: str | None = None,
    **options: Unpack[Options],
) -> Requirement:
    """Require ``multiple`` times the loss of a model that client k trains alone (paper: 1).

    Args:
        multiple: Of that loss.
        steps: SGD steps of solo models; of a list, each client keeps the best of its models.
        metric: By name: that model's metric takes the place of its loss.
        options: ``local_lr``, ``batch_size``, ``judge``, ``judge_fraction``, see ``Options``.
    """
    check_number("requirement.multiple", multiple, above=0)
    _check_name(metric)
    return _with_options(Requirement(multiple=multiple, metric=metric), steps, options)


def fixed(loss: ArrayLike, steps: ArrayLike = 100, **options: Unpack[Options]) -> Requirement:
    """Require one loss for all clients; solo models are still trained, to compare with.

    An array makes a sweep; for a loss for each client see ``per_client``. The rest is as for
    ``solo``.
    """
    check_number("requirement.loss", loss, least=0)
    return _with_options(Requirement(value=loss), steps, options)


def metric(
    name: str, value: ArrayLike, steps: ArrayLike = 100, **options: Unpack[Options]
) -> Requirement:
    """Require one value of a metric of the model: at least 0.8 accuracy, at most 0.3 ``mae``.

    Which of both the metric says: whether more of it is better. It then decides who is satisfied
    and who participates, and MaxFL weighs clients by its gap, with a temperature in its units;
    what is trained is still the loss. The rest is as for ``solo``.
    """
    if name is None:
        raise InputError('requirement.metric: name one, as maxfl.metric("accuracy", 0.8)')
    _check_name(name)
    check_number("requirement.value", value)
    return _with_options(Requirement(value=value, metric=name), steps, options)


def per_client(
    values: Mapping[Any, Any] | ArrayLike,
    test: Mapping[Any, Any] | ArrayLike | None = None,
    *,
    metric: str | None = None,
    otherwise: Requirement | None = None,
    steps: ArrayLike | None = None,
    **options: Unpack[Options],
) -> Requirement:
    """Require of each client its own loss, or its own value of a metric.

    Args:
        values: A number for each client, in the federation's order, or by its name; NaN, or a name
            that is left out, for a client that has none.
        test: Likewise, for test data; by default the same values.
        metric: The metric that they are values of; by default they are losses.
        otherwise: What clients without a value require, of the same metric.
        steps: SGD steps of the solo models; by default those of ``otherwise``.
        options: As for ``solo``; by default those of ``otherwise``.
    """
    _check_name(metric)
    clients = client_values(values, test)
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
    whole = rest._replace(metric=metric, clients=clients, has_rest=otherwise is not None)
    return _with_options(whole, rest.training.steps if steps is None else steps, options)


def custom(
    rule: RequirementRule,
    steps: ArrayLike = 100,
    *,
    metric: str | None = None,
    **options: Unpack[Options],
) -> Requirement:
    """Require ρ = ``rule(federation, solo)``: one number per client, or a tuple of two such arrays.

    Of a tuple the second is for test data; one array is for judging and test data alike, so it
    must not be built of test figures, or these would have a part in training. ``solo`` has
    ``judging_loss``, ``test_loss`` and ``test_metric``, the first of the model's metrics (accuracy
    for classifiers), of the solo models, [K] each; with ``metric``, by name, ρ are values of it,
    and there is ``judging_metric``. The rest is as for ``solo``.
    """
    if not callable(rule):
        raise InputError(f"requirement.custom({rule!r}): expected a function of (federation, solo)")
    _check_signature(rule)
    _check_name(metric)
    return _with_options(Requirement(rule=rule, metric=metric), steps, options)


def _with_options(requirement: Requirement, steps: Any, options: Options) -> Requirement:
    """Return the requirement with what was said of solo models and judging."""
    known = (*Options.__annotations__, "steps")
    if unknown := [name for name in options if name not in known]:
        raise InputError(
            f"a requirement has no {unknown[0]}: expected {', '.join(known)}"
            f"{did_you_mean(unknown[0], known)}"
        )
    training, before = requirement.training, requirement.judging
    rates, sizes = options.get("local_lr"), options.get("batch_size")
    return requirement._replace(
        training=SoloTraining(
            step_counts(steps),
            training.local_lr if rates is None else learning_rates(rates),
            training.batch_size if sizes is None else batch_sizes(sizes),
        ),
        judging=judging(
            options.get("judge", before.data), options.get("judge_fraction", before.fraction)
        ),
    )


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


def _of(metric: str | None) -> str:
    return "losses" if metric is None else f"values of {metric}"


def _check_name(metric: Any) -> None:
    """Refuse anything but the name of a metric."""
    if metric is not None and not isinstance(metric, str):
        raise InputError(
            f"requirement.metric = {metric!r:.60}: expected the name of one of the model's "
            f'metrics, such as "accuracy"'
        )
