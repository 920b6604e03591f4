"""The configurations of a sweep."""

import time

import pytest

from maxfl.runs.grid import expand
from maxfl.utils.errors import InputError


def test_sweeps_expand_to_every_combination():
    grid = expand({"sweep": {"seed": [0, 1], "training": {"local_lr": [0.1, 0.2, 0.3]}}}, "s")
    assert len(grid.configs) == 6
    assert grid.values[1] == {"seed": 0, "training.local_lr": 0.2}
    assert grid.configs[5].training.local_lr == 0.3
    tables = [{"algorithm": {"name": ["fedavg"]}}, {"algorithm": {"gain": [0.2, 0.1]}}]
    assert [c.algorithm.name for c in expand({"sweep": tables}, "s").configs] == [
        "fedavg", "maxfl-auto", "maxfl-auto",
    ]  # fmt: skip
    for bad, words in (
        ({}, "nothing to sweep over"),
        ({"sweep": {"seed": 3}}, "sweep.seed = 3; expected a list"),
        ({"sweep": {"seed": []}}, "sweep.seed is an empty list"),
        ({"sweep": 3}, "sweep = 3; expected a table"),
        ({"sweep": {"seed": [0, "x"]}}, "with seed = x"),
        ({"sweep": {"seed": [0, 1, 0]}}, "a combination twice in its sweep: seed = 0"),
        (
            {"sweep": [{"seed": [0, 1]}, {"seed": [1]}]},
            "twice in its sweep: seed = 1",
        ),
    ):
        with pytest.raises(InputError, match=words):
            expand(bad, "s")


def test_another_method_starts_with_its_own_hyperparameters():
    raw = {"algorithm": {"name": "maxfl", "temperature": 0.3}}
    grid = expand({**raw, "sweep": {"algorithm": {"name": ["fedavg", "maxfl"]}}}, "s")
    assert [c.algorithm.hparams for c in grid.configs] == [{}, {"temperature": 0.3}]


def test_large_sweeps_expand_in_linear_time_and_the_largest_want_force():
    """Ten thousand in seconds; looking each up in all before it would take minutes."""
    many = {"sweep": {"seed": list(range(10_001))}}
    with pytest.raises(InputError, match=r"s has 10,001 combinations, more than 10,000: shorten"):
        expand(many, "s")
    began = time.process_time()
    assert len(expand(many, "s", force=True).configs) == 10_001
    assert time.process_time() - began < 10
    with pytest.raises(InputError, match=r"twice in its sweep: model\.hidden = \[4\]"):
        expand({"sweep": {"model": {"hidden": [[4], [5], [4]]}}}, "s")
    with pytest.raises(InputError, match="twice"):
        expand({"sweep": {"training": {"local_lr": [1, 1.0]}}}, "s")
