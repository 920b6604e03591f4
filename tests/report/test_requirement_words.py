"""What clients require, in a sentence: as files and as Python give it."""

import pytest

from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.report.requirement_words import requirement_words

MAE = MetricInfo("mae", higher_is_better=False, percent=False)


@pytest.mark.parametrize(
    ("settings", "decides", "words"),
    [
        (
            {"kind": "solo", "steps": 50, "multiple": 1.0}, None,
            "The model must have a smaller loss than the one that the client trains alone, in 50 "
            "steps.",
        ),
        (
            {"steps": 50, "multiple": 2.0, "metric": "accuracy", "value": None}, ACCURACY,
            "The model must have as good a value of accuracy as the one that the client trains "
            "alone, in 50 steps, times 2.0.",
        ),
        ({"loss": 0.5}, None, "The model must have a loss below 0.5."),
        ({"kind": "fixed", "loss": 0.5}, None, "The model must have a loss below 0.5."),
        ({"metric": "accuracy", "value": 0.8}, ACCURACY,
         "The model must have at least 0.8 of accuracy."),
        ({"kind": "metric", "value": 0.3}, MAE, "The model must have at most 0.3 of mae."),
        ({"kind": "file", "otherwise": "solo"}, ACCURACY,
         "Each client has its own value of accuracy that the model must have. Those that have "
         "none: solo."),
        ({"clients": "digest", "otherwise": True}, None,
         "Each client has its own value of loss that the model must have."),
        ({"rule": "mine"}, None,
         "A custom rule (mine) says what loss the model must have for each client."),
        ({"kind": "clients"}, None,
         "Each client sets its requirement, and does not tell it unless it is asked to."),
    ],
)  # fmt: skip
def test_sentences(settings, decides, words):
    given = {f"requirement.{name}": value for name, value in settings.items()}
    assert requirement_words(given, decides) == words
