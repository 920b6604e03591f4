"""Metrics: what is measured of a model beside its loss, by name.

A metric is a mean over a client's samples, like the loss; ``perplexity`` and ``root_squared_error``
take a function of that mean. The first metric of a model stands beside GM-Appeal in tables.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from maxfl.core import losses
from maxfl.utils.errors import InputError


class Metric(NamedTuple):
    """What is measured, and how it reads.

    Attributes:
        function: ``function(outputs, y) -> float[n]``, of each sample.
        higher_is_better: The direction.
        percent: Whether people read it in percent.
        of_mean: If given, the metric is this function of the mean over a client's samples.
    """

    function: Callable[[Any, Array], Array]
    higher_is_better: bool
    percent: bool = False
    of_mean: Callable[[Array], Array] | None = None


class MetricInfo(NamedTuple):
    """What tables and pages need to know of a metric."""

    name: str
    higher_is_better: bool = True
    percent: bool = False


ACCURACY = MetricInfo("accuracy", higher_is_better=True, percent=True)
"""The first metric of classifiers, and of runs that were written when there was no other."""


class NamedMetric(NamedTuple):
    """A metric of a model, with its name."""

    name: str
    metric: Metric

    @property
    def info(self) -> MetricInfo:
        """What tables need to know."""
        return MetricInfo(self.name, self.metric.higher_is_better, self.metric.percent)


def _is_right(outputs: Array, y: Array) -> Array:
    return (jnp.argmax(outputs, axis=-1) == y).astype(jnp.float32)


def _labels_right(outputs: Array, y: Array) -> Array:
    outputs, y = losses.align(outputs, y)
    return losses.mean_per_sample(((outputs > 0) == (y > 0.5)).astype(jnp.float32))


@dataclass(frozen=True)
class _TokensRight:
    padding: int

    def __call__(self, outputs: Array, y: Array) -> Array:
        return losses.masked_mean(_is_right(outputs, y), y != self.padding)


accuracy = Metric(_is_right, higher_is_better=True, percent=True)
"""Share of samples whose largest logit is that of the label."""
label_accuracy = Metric(_labels_right, higher_is_better=True, percent=True)
"""Share of labels, each there or not, that are predicted correctly."""
absolute_error = Metric(losses.absolute_error, higher_is_better=False)
"""Mean absolute error."""
root_squared_error = Metric(losses.squared_error, higher_is_better=False, of_mean=jnp.sqrt)
"""Root of the mean squared error."""


def token_accuracy(padding: int = 0) -> Metric:
    """Return the share of a sequence's tokens that are predicted correctly, without ``padding``."""
    return Metric(_TokensRight(padding), higher_is_better=True, percent=True)


def perplexity(padding: int = 0) -> Metric:
    """Return exp of ``losses.next_token``'s mean, in which all sequences count alike."""
    return Metric(losses.next_token(padding), higher_is_better=False, of_mean=jnp.exp)


def default_metrics(loss: losses.Loss) -> dict[str, Metric]:
    """Return the metrics that go with a loss; of one that is not known here, the loss itself."""
    if loss is losses.cross_entropy:
        return {"accuracy": accuracy}
    if loss is losses.multi_label:
        return {"accuracy": label_accuracy}
    if isinstance(loss, losses.NextToken):
        padding = loss.padding
        return {"perplexity": perplexity(padding), "accuracy": token_accuracy(padding)}
    if loss in (losses.squared_error, losses.absolute_error) or isinstance(loss, losses.Huber):
        return {"mae": absolute_error, "rmse": root_squared_error}
    return {"loss": Metric(loss, higher_is_better=False)}


def name_metrics(given: Any, loss: losses.Loss) -> tuple[NamedMetric, ...]:
    """Return metrics in their order, or say what is wrong with them."""
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            f'metrics = {given!r:.60}: expected names with metrics, as {{"mae": '
            f"maxfl.metrics.absolute_error}}; leave it out for those that go with the loss"
        )
    for name, metric in given.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(
                f"metrics has the name {name!r}: it becomes a column, so letters, digits and _"
            )
        if not isinstance(metric, Metric):
            raise InputError(
                f"metrics[{name!r}] = {metric!r:.60}: say whether more of it is better, "
                f"maxfl.Metric(function, higher_is_better=True)"
            )
        if name == "loss" and (metric.function != loss or metric.of_mean is not None):
            raise InputError(
                'metrics["loss"] is not the loss, whose column is called so: choose another name'
            )
    return tuple(NamedMetric(name, metric) for name, metric in given.items())
