"""How metrics are called and printed."""

import numpy as np
import pytest

from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.report.measures import direction, first_metric, measure_of, summary_measures
from support.made_runs import REGRESSION


def test_a_metric_is_called_by_its_name():
    headings = [measure.heading for measure in summary_measures(ACCURACY)]
    assert headings == ["GM-Appeal", "test accuracy, %", "preferred-model accuracy, %",
                        "willing, %"]  # fmt: skip
    f1 = MetricInfo("macro_f1", higher_is_better=True)
    assert measure_of(f1, "preferred")[:2] == ("preferred_macro_f1", "preferred-model macro f1")
    assert [direction(metric) for metric in (f1, REGRESSION[0])] == ["", " (lower is better)"]


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.12345, "0.123"), (0.09996, "0.100"), (1234.5, "1234"), (0.0, "0.000"),
     (4.2e-6, "0.00000420"), (None, "n/a"), (np.inf, "n/a")],
)  # fmt: skip
def test_a_plain_number_has_three_significant_digits(value, words):
    assert measure_of(REGRESSION[0]).printed(value) == words


def test_the_standard_deviation_has_the_digits_of_the_mean():
    assert measure_of(REGRESSION[0]).statistic([11.0, 12.0]).printed == ("11.5", "0.7")
    assert measure_of(ACCURACY).printed(0.1234) == "12.3 %"


def test_entries_without_metrics_are_of_classifiers():
    assert first_metric({"values": {}}) == ACCURACY
    assert first_metric({"metrics": [info._asdict() for info in REGRESSION]}) == REGRESSION[0]
