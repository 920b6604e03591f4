"""F_k(w) and ρ_k of one client: what it measures of a model that comes in, and what it requires."""

import math
from collections.abc import Callable
from typing import NamedTuple

from flwr.app import Context, Message, MetricRecord

from maxfl.core import appeal
from maxfl.flower import keys
from maxfl.flower.client.requirement_store import RequirementStore
from maxfl.utils.errors import InputError

Loss = Callable[[Message, Context], float]
"""``loss(message, context)``: F_k of the model in ``message.content``, on the client's data."""


class NotFiniteError(InputError):
    """What a client measured of a model is no finite number; of several models, others may be."""


class ClientCriterion(NamedTuple):
    """A loss and what it must stay below.

    Attributes:
        loss_key: Metric by which the loss is sent, where losses are collected.
        requirement_key: Metric by which ρ_k is sent, and its name in the client's state.
        loss_fn: Measures the loss.
        requirement: ρ_k, or what computes it.
        keep: Where ρ_k outlives the run, if it does.
        may_keep: Whether what is computed at a message holds for other runs too.
        tie_loss: Of several models with the same ``loss_fn``, the one of least ``tie_loss`` is
            picked; without it the first.
    """

    loss_key: str
    requirement_key: str
    loss_fn: Loss
    requirement: float | Loss
    keep: RequirementStore | None = None
    may_keep: Callable[[Message], bool] = lambda message: True  # noqa: ARG005
    tie_loss: Loss | None = None

    def measure(self, message: Message, context: Context) -> "Measurement":
        """Measure the model that came in, beside what is required of it."""
        required = self.required(message, context)
        return Measurement(_call("loss", self.loss_fn, message, context), required)

    def required(self, message: Message, context: Context) -> float:
        """Return ρ_k: as given, of this run's state, of the node's files, or computed."""
        if not callable(self.requirement):
            return float(self.requirement)
        state = context.state.get(keys.STATE)
        if not isinstance(state, MetricRecord):
            state = context.state[keys.STATE] = MetricRecord()
        if self.requirement_key not in state:
            state[self.requirement_key] = self._kept_or_computed(message, context)
        return float(state[self.requirement_key])  # type: ignore[arg-type]

    def _kept_or_computed(self, message: Message, context: Context) -> float:
        def compute() -> float:
            value = _call("requirement", self.requirement, message, context)  # type: ignore[arg-type]
            if not math.isfinite(value):
                raise InputError(
                    f"the requirement of this client came out as {value}: expected a finite loss"
                )
            return value

        if self.keep is None:
            return compute()
        may_keep = self.may_keep(message)
        return self.keep.get(self.requirement_key, context, compute, keep=may_keep)


class Measurement(NamedTuple):
    """F_k(w) and ρ_k."""

    loss: float
    requirement: float

    @property
    def satisfied(self) -> bool:
        """Whether the model meets the requirement."""
        return bool(appeal.satisfied(self.loss, self.requirement))


def _call(name: str, function: Loss, message: Message, context: Context) -> float:
    """Call a function of the user's; if it fails, its client's log says so first."""
    try:
        return float(function(message, context))
    except InputError:
        raise  # which says what to do
    except Exception as error:
        raise InputError(
            f"the {name} function that this client gave to appeal_mod raised "
            f"{type(error).__name__}: {error}. Fix it in the client's app"
        ) from error
