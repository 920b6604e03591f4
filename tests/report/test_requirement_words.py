"""What clients require, in a sentence: as files and as Python give it."""

import pytest

from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.report.requirement_words import HeldOut, judging_words, requirement_words

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
        (
            {"kind": "solo", "steps": [50, 100]}, None,
            "The model must have a smaller loss than the one that the client trains alone, in 50 "
            "or 100 steps.",
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


HELD_OUT = (
    "Clients judge by samples that they do not train on: 25 % of their training data, unless the "
    "data have a part for it."
)
BY_TRAINING = (
    "Clients judge by their training data, on which a model that they trained alone has an "
    "advantage."
)
FOLLOWS = (
    "Clients train alone with the run's own learning rate, on minibatches of the run's own size. "
    "So what it requires changes with these."
)
BEST = (
    "Clients train alone with learning rate 0.1, 0.01 or 0.001, on minibatches of 32 samples. Each "
    "client keeps the best of its models, by what it judges by."
)
JUDGE = {"judge": "held-out", "judge_fraction": 0.25}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "solo", "steps": 100}, [FOLLOWS, BY_TRAINING]),
        ({"loss": 0.5}, [BY_TRAINING]),
        (
            {"kind": "solo", "local_lr": [0.1, 0.01, 0.001], "batch_size": 32, **JUDGE},
            [BEST, HELD_OUT],
        ),
        ({"local_lr": "0.1, 0.01, 0.001", "batch_size": 32, **JUDGE}, [BEST, HELD_OUT]),
        (
            {"rule": "mine", "local_lr": 0.5, "batch_size": "training", "judge": "training"},
            [
                "Clients train alone with learning rate 0.5, on minibatches of the run's own size. "
                "So what it requires changes with these.",
                BY_TRAINING,
            ],
        ),
        ({"kind": "fixed", "loss": 1.0, **JUDGE}, [HELD_OUT]),
        ({"kind": "file", "otherwise": "fixed", **JUDGE}, [HELD_OUT]),
        ({"kind": "file", "otherwise": "solo", **JUDGE, "local_lr": 0.1, "batch_size": 8},
         ["Clients train alone with learning rate 0.1, on minibatches of 8 samples.", HELD_OUT]),
        ({"kind": "clients"}, []),
    ],
)  # fmt: skip
def test_how_clients_train_alone_and_judge_is_said_of_old_and_new_runs(settings, words):
    given = {f"requirement.{name}": value for name, value in settings.items()}
    assert judging_words(given) == words


@pytest.mark.parametrize(
    ("held_out", "words"),
    [
        (HeldOut(is_own_part=False), "do not train on: 25 % of their training data."),
        (HeldOut(is_own_part=True), "do not train on: the judging part that the data have."),
        (HeldOut(is_own_part=False, is_empty=True),
         f"{BY_TRAINING[:-1]}: all have too few samples to hold any out."),
    ],
)  # fmt: skip
def test_what_a_run_held_out_is_said_as_it_was(held_out, words):
    given = {f"requirement.{name}": value for name, value in JUDGE.items()}
    _, said = judging_words(given, held_out)
    assert words in said
