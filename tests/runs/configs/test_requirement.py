"""The table [requirement]: its mistakes, and what becomes of it."""

import numpy as np
import pytest

from maxfl.runs.build import _requirement
from maxfl.runs.configs.file import unused, unused_beside_data, validate
from maxfl.utils.errors import InputError


def built(**settings):
    return _requirement([validate({"requirement": settings}, "file.toml")])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "metric", "metric": "accuracy"}, '`value` and kind = "metric"'),
        ({"kind": "metric", "value": 0.8}, "needs `metric`, the name of one"),
        ({"value": 0.8}, '`value` and kind = "metric"'),
        ({"kind": "fixed", "loss": 0.5, "metric": "mae"}, 'take "metric" in place of "fixed"'),
        ({"kind": "file"}, '`file` and kind = "file" go together'),
        ({"file": "need.csv"}, '`file` and kind = "file" go together'),
        (
            {"kind": "file", "file": "need.csv", "otherwise": "fixed"},
            '`loss` and otherwise = "fixed"',
        ),
        ({"otherwise": "solo"}, '`otherwise` is for kind = "file"'),
        ({"kind": "custom"}, '`rule` and kind = "custom" go together'),
        ({"kind": "metric", "metric": "accuracy", "value": float("nan")}, "value.*finite"),
        ({"kind": "median"}, "requirement.kind: .*'solo', 'fixed', 'metric'"),
    ],
)
def test_mistakes_are_named(settings, words):
    with pytest.raises(InputError, match=words):
        validate({"requirement": settings}, "file.toml")


@pytest.mark.parametrize(
    ("key", "given", "words"),
    [
        *(("local_lr", given, "expected a number above 0, a list of them, or \"training\"")
          for given in (-0.1, [], float("nan"), "trainin", [0.1, -1], True, [[0.1]])),
        ("batch_size", 0, "expected a whole number above 0, a list of them, or \"training\""),
        ("steps", 10.5, "expected a whole number at least 0, or a list of them"),
        ("steps", [50, 0], "expected a whole number at least 0, or a list of them above 0"),
    ],
)  # fmt: skip
def test_a_mistake_in_numbers_of_solo_models_is_said_once(key, given, words):
    with pytest.raises(InputError) as said:
        validate({"requirement": {key: given}}, "file.toml")
    first, line = str(said.value).splitlines()
    assert first == "file.toml has 1 mistake:"
    assert line.startswith(f"  requirement.{key}: {words}")
    assert ("Did you mean 'training'?" in line) == (given == "trainin")


def test_one_untrained_model_may_be_all_that_clients_have_alone():
    assert built(steps=0).training.steps == built(steps=[0]).training.steps == (0,)


def test_each_kind_is_built():
    metric = built(kind="metric", metric="accuracy", value=0.8, steps=7)
    assert (metric.kind, metric.metric, metric.training.steps) == ("metric", "accuracy", (7,))
    np.testing.assert_allclose(metric.value, [0.8])
    assert built(metric="accuracy").kind == "solo"
    assert built(metric="accuracy").metric == "accuracy"


@pytest.mark.parametrize(
    ("settings", "kind", "complete"),
    [
        ({}, "solo", False),
        ({"otherwise": "solo", "multiple": 2.0}, "solo", True),
        ({"otherwise": "metric", "metric": "accuracy", "value": 0.5}, "metric", True),
        ({"otherwise": "fixed", "loss": 0.5}, "fixed", True),
    ],
)
def test_a_file_and_the_rest(tmp_path, settings, kind, complete):
    path = tmp_path / "need.csv"
    path.write_text("client,value\n3,0.5\n")
    found = built(kind="file", file=str(path), steps=9, **settings)
    assert found.clients.names == ("3",)
    assert (found.kind, found.has_rest, found.training.steps) == (kind, complete, (9,))


def test_a_multiple_that_nobody_takes_is_said():
    settings = {"kind": "metric", "metric": "accuracy", "value": 0.8, "multiple": 2.0}
    (note,) = unused(validate({"requirement": settings}, "file.toml"))
    assert "requirement.multiple" in note


def test_a_fraction_that_nobody_holds_out_is_said():
    half = {"judge_fraction": 0.5}
    (note,) = unused(validate({"requirement": {"judge": "training", **half}}, "file.toml"))
    assert note == (
        "requirement.judge_fraction does nothing here: clients judge by their training data"
    )
    config = validate({"requirement": half}, "file.toml")
    assert unused(config) == unused_beside_data(config, has_own_judging=False) == []
    (note,) = unused_beside_data(config, has_own_judging=True)
    assert note.startswith("requirement.judge_fraction does nothing here: the data have")
    assert unused_beside_data(validate({}, "file.toml"), has_own_judging=True) == []


def test_a_rule_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demands.py").write_text(
        "def rule(federation, solo):\n    return solo.judging_loss\n"
    )
    (tmp_path / "need.csv").write_text("client,value\n3,0.5\n")
    mixed = built(kind="file", file="need.csv", otherwise="custom", rule="demands:rule")
    assert (mixed.kind, mixed.clients.names) == ("custom", ("3",))
    found = built(kind="custom", rule="demands:rule", metric="accuracy")
    assert (found.kind, found.rule.__name__, found.metric) == ("custom", "rule", "accuracy")
    with pytest.raises(InputError, match=r"requirement.rule: .*has no other"):
        built(kind="custom", rule="demands:other")
