"""What a report measures of a model, and how it reads: GM-Appeal, the first metric, the willing."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.report.table import Estimate, Statistic


class Measure(NamedTuple):
    """A mean over clients.

    Attributes:
        key: Its name in files.
        words: Its name for people.
        digits: Printed after the point; None for three significant ones.
        percent: Whether people read it in per cent.
    """

    key: str
    words: str
    digits: int | None = None
    percent: bool = False

    @property
    def heading(self) -> str:
        """Of a column of numbers."""
        return f"{self.words}, %" if self.percent else self.words

    def statistic(
        self, values: Sequence[float | None] | NDArray[Any], *, signed: bool = False
    ) -> Statistic:
        """Return mean and standard deviation, with the digits that all tables print."""
        return Statistic.of(values, self.digits, self.percent, signed)

    def estimate(self, interval: Sequence[float]) -> Estimate:
        """Return a difference with its interval, with the digits that all tables print."""
        return Estimate.of(interval, self.digits, self.percent)

    def printed(self, value: float | None) -> str:
        """Write one value, with its unit."""
        text = self.statistic([value]).printed[0]
        return f"{text} %" if self.percent and text != "n/a" else text


APPEAL = Measure("gm_appeal", "GM-Appeal", 2)
WILLING = Measure("willing", "willing", 1, percent=True)


def words_of(metric: MetricInfo) -> str:
    """Return what a metric is called for people."""
    return metric.name.replace("_", " ")


def measure_of(metric: MetricInfo, model: str = "test") -> Measure:
    """Return a metric on test data; of the solo or the preferred model, if so chosen."""
    digits = 1 if metric.percent else None
    prefix = "preferred-model" if model == "preferred" else model
    words = f"{prefix} {words_of(metric)}"
    return Measure(f"{model}_{metric.name}", words, digits, metric.percent)


def summary_measures(metric: MetricInfo) -> tuple[Measure, ...]:
    """Return what is measured of every method and group of clients."""
    return APPEAL, measure_of(metric), measure_of(metric, "preferred"), WILLING


def direction(metric: MetricInfo) -> str:
    """Say which way is better, where it is not the one that people expect; else ""."""
    return "" if metric.higher_is_better else " (lower is better)"


def capitalised(words: str) -> str:
    """Return words as the beginning of a sentence."""
    return words[0].upper() + words[1:]


def deciding_words(decides: MetricInfo | None) -> str:
    """Return what requirements are about, for people."""
    return "loss" if decides is None else words_of(decides)


def appeal_words(decides: MetricInfo | None) -> str:
    """Say what GM-Appeal is, by what decides."""
    if decides is None:
        return (
            "GM-Appeal: share of clients for whom the model's test loss is below their "
            "requirement, by default the loss of the model that they train alone."
        )
    return (
        f"GM-Appeal: share of clients for whom the model's test {words_of(decides)} is at "
        f"least as good as they require."
    )


def deciding_metric(entry: Mapping[str, Any]) -> MetricInfo | None:
    """Return the metric that requirements are about in a summary's entry; None for the loss."""
    decides = entry.get("decides")
    return MetricInfo(**decides) if decides else None


def first_metric(entry: Mapping[str, Any]) -> MetricInfo:
    """Return the first metric of a summary's entry; those that name none are of classifiers."""
    named = entry.get("metrics")
    return MetricInfo(**named[0]) if named else ACCURACY
