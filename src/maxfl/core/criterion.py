"""What a client judges a model by: the loss, or one of the model's metrics.

A loss must be beaten, F_k(w) < ρ_k (definition 1 of Cho et al., TMLR 2024); a metric must be at
least as good as required. Methods and participation rules see a *cost*, of which less is better:
the loss itself, or the metric, negated where more of it is better. The gap of a metric is then in
its units, and so is MaxFL's temperature.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from maxfl.core import appeal
from maxfl.core.appeal import namespace
from maxfl.utils.errors import InputError, did_you_mean

if TYPE_CHECKING:  # a Flower client has no JAX
    from maxfl.core.metrics import MetricInfo

ROUNDING = 1e-6
"""A metric this close to its requirement, as a share of it, meets it: 0.8 is 8 of 10 in float32."""
SMALLEST = 1e-6
"""Requirements nearer to zero are taken for this one in that."""


class Criterion(NamedTuple):
    """The loss, or one of the model's metrics.

    Attributes:
        metric: Its index among the model's metrics; None for the loss.
        higher_is_better: Whether more of it is better.
    """

    metric: int | None = None
    higher_is_better: bool = False

    def value(self, loss: Any, metrics: tuple[Any, ...]) -> Any:
        """Return the number that decides, of a loss and all metrics."""
        return loss if self.metric is None else metrics[self.metric]

    def cost(self, value: Any) -> Any:
        """Return the value so that less of it is better."""
        return -value if self.higher_is_better else value

    def bound(self, requirement: Any) -> Any:
        """Return what a cost must lie below for the requirement to be met."""
        if self.metric is None:
            return requirement
        slack = ROUNDING * namespace(requirement).maximum(abs(requirement), SMALLEST)
        return self.cost(requirement) + slack

    def satisfied(self, value: Any, requirement: Any) -> Any:
        """Return whether a value meets a requirement, elementwise."""
        return appeal.satisfied(self.cost(value), self.bound(requirement))


def check_share(metric: "MetricInfo", values: Any) -> None:
    """Refuse a requirement of a share, such as accuracy, that is none: 80 for 0.8."""
    given = np.asarray(values, np.float64)
    wrong = given[(given > 1) | (given < 0)]
    if metric.percent and wrong.size:
        first = float(wrong.flat[0])
        meant = f"; did you mean {first / 100:g}?" if 1 < first <= 100 else ""
        raise InputError(
            f"the requirement has {first:g} of {metric.name}, which is a share from 0 to 1{meant}"
        )


def find_criterion(metric: str | None, infos: "tuple[MetricInfo, ...]") -> Criterion:
    """Return what decides: the loss, or the metric of this name, if the model has it."""
    if metric is None:
        return Criterion()
    names = [info.name for info in infos]
    if metric not in names:
        raise InputError(
            f"requirement.metric = {metric!r}: the model has {', '.join(names)}"
            f"{did_you_mean(metric, names)}"
        )
    index = names.index(metric)
    return Criterion(index, infos[index].higher_is_better)
