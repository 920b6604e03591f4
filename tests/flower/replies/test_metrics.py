"""Metrics of a reply: few, short and finite, or the reply is rejected for one clear reason."""

import math
import time

import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import MetricRecord

from maxfl.flower.replies.metrics import MAX_METRICS, MAX_NUMBERS, wrong_metrics

pytestmark = pytest.mark.extras


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"loss": math.nan}, "loss is nan; expected finite numbers"),
        ({"loss": [0.5, math.inf]}, "loss is [0.5, inf]; expected finite numbers"),
        ({"loss": []}, "loss has 0 numbers; expected 1 to 10000 in all metrics"),
        ({"loss": 1e31}, "loss is 1e+31; expected finite numbers"),
        ({"a": [1.0] * MAX_NUMBERS, "b": 1}, "b has 1 numbers; expected 1 to 10000 in all metrics"),
        ({"x" * 201: 1.0}, "a metric's name has 201 characters; at most 200 are read"),
    ],
)
def test_what_is_wrong_is_said(metrics, words):
    assert wrong_metrics(MetricRecord(metrics)) == words


def test_what_apps_send_is_right():
    usual = {"num-examples": 30, "loss": 0.5, "by-class": [0.1] * 62}
    assert wrong_metrics(MetricRecord(usual)) == ""
    many = MetricRecord({f"m{i}": 1.0 for i in range(MAX_METRICS)})
    assert wrong_metrics(many) == ""


def test_a_hundred_thousand_metrics_are_not_read():
    many = MetricRecord({f"m{i}": 1.0 for i in range(100_000)})
    began = time.perf_counter()
    assert wrong_metrics(many) == "100000 metrics; at most 200 are read"
    assert time.perf_counter() - began < 0.1
