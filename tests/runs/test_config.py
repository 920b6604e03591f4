"""Configurations: every mistake named, nothing ignored."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from maxfl.data.arrays import load_arrays
from maxfl.data.locate import find
from maxfl.data.registry import entry
from maxfl.runs.build import build, build_federation, group
from maxfl.runs.config import RunConfig
from maxfl.runs.config_file import (
    override,
    override_all,
    parse_setting,
    read_toml,
    unused,
    validate,
)
from maxfl.runs.sweep import expand
from maxfl.utils.errors import InputError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"trainin": {}}, "trainin: unknown key; known here are seed, data"),
        ({"training": {"ronds": 5}}, "training.ronds: unknown key; known here are rounds"),
        ({"training": {"rounds": "many"}}, "training.rounds: .* integer .*many"),
        ({"training": {"rounds": 0}}, "training.rounds: .* greater than 0"),
        ({"training": {"rounds": "5"}}, "training.rounds: .* valid integer"),
        ({"training": {"local_lr": True}}, "training.local_lr: .* valid number"),
        ({"seed": True}, "seed: .* valid integer"),
        ({"training": {"local_lr": float("inf")}}, "training.local_lr: .*finite"),
        ({"data": {"partition": "magic"}}, "data.partition: .*'dirichlet', 'dirichlet-unequal'"),
        ({"data": {"source": "arrays"}}, "data: `file` and source"),
        ({"data": {"partition": "by-owner"}}, "needs source"),
        ({"data": {"source": "synthetic"}}, "draws its clients"),
        ({"data": {"source": "sent140-stand-in", "partition": "iid"}}, "users with skewed labels"),
        ({"data": {"source": "sent140-stand-in", "samples": 49}}, "at least 50 .*raise `samples`"),
        (
            {"data": {"source": "sent140-stand-in", "partition": "dirichlet-unequal"}},
            "raise `min_samples`",
        ),
        ({"data": {"source": "mnist"}}, "data.source: .*'fashion-mnist'"),
        ({"algorithm": {"name": "fedsgd"}}, "algorithm.name"),
        ({"algorithm": {"name": "maxfl", "mu": 1}}, "maxfl has no number `mu`; it has temperature"),
        ({"algorithm": {"temperature": "hot"}}, "`temperature` = 'hot' is not a number"),
        ({"requirement": {"kind": "fixed"}}, "requirement: `loss` and kind"),
        ({"seed": -1}, "seed: .*greater than or equal to 0"),
    ],
)
def test_mistakes_are_named(settings, words):
    with pytest.raises(InputError, match=words):
        validate(settings, "file.toml")


def test_all_mistakes_are_listed_at_once():
    with pytest.raises(InputError, match="2 mistake") as caught:
        validate({"seed": -1, "model": {"hidden": [0]}}, "file.toml")
    assert "seed" in str(caught.value)
    assert "model.hidden.0" in str(caught.value)


def test_settings_on_the_command_line():
    assert parse_setting("training.rounds=50") == ("training.rounds", 50)
    assert parse_setting("algorithm.name=fedavg") == ("algorithm.name", "fedavg")
    assert parse_setting('data.partition="iid"') == ("data.partition", "iid")
    assert parse_setting("model.hidden=[8, 4]") == ("model.hidden", [8, 4])
    with pytest.raises(InputError, match="want key=value"):
        parse_setting("rounds")
    before = {"a": {"b": 1}}
    assert override(before, "a.c.d", 2) == {"a": {"b": 1, "c": {"d": 2}}}
    assert before == {"a": {"b": 1}}
    with pytest.raises(InputError, match="a is a value, not a table"):
        override({"a": 1}, "a.b", 2)


def test_another_method_starts_with_its_own_numbers():
    raw = {"algorithm": {"name": "maxfl", "temperature": 0.3}}
    assert override_all(raw, {"algorithm.by_size": 1.0, "algorithm.name": "fedavg"}) == {
        "algorithm": {"name": "fedavg", "by_size": 1.0}
    }
    assert override_all(raw, {"algorithm.name": "maxfl"}) == raw
    given = {"algorithm": {"temperature": 0.3, "by_size": 1.0, "typo": 2}}
    assert override_all(given, {"algorithm.name": "fedavg"}) == {
        "algorithm": {"name": "fedavg", "by_size": 1.0, "typo": 2}
    }
    grid = expand({**raw, "sweep": {"algorithm": {"name": ["fedavg", "maxfl"]}}}, "s")
    assert [c.algorithm.numbers for c in grid.configs] == [{}, {"temperature": 0.3}]


def test_settings_that_do_nothing_are_pointed_at():
    used = {"data": {"alpha": 0.1, "samples": 10}, "participation": {"rule": "decline", "start": 3}}
    assert unused(validate(used, "file")) == []
    raw = {
        "data": {"partition": "iid", "alpha": 0.1, "clusters": 2},
        "participation": {"start": 3},
        "requirement": {"kind": "fixed", "loss": 1.0, "multiple": 2.0},
    }
    words = " ".join(unused(validate(raw, "file")))
    for key in ("data.alpha", "data.clusters", "participation.start", "requirement.multiple"):
        assert f"{key} does nothing here" in words


def test_files_that_can_not_be_read(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_toml(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[data\n")
    with pytest.raises(InputError, match="not valid TOML"):
        read_toml(broken)


def test_sweeps_expand_to_every_combination():
    grid = expand({"sweep": {"seed": [0, 1], "training": {"local_lr": [0.1, 0.2, 0.3]}}}, "s")
    assert len(grid.configs) == 6
    assert grid.values[1] == {"seed": 0, "training.local_lr": 0.2}
    assert grid.configs[5].training.local_lr == 0.3
    tables = [{"algorithm": {"name": ["fedavg"]}}, {"algorithm": {"temperature": [1.0, 0.1]}}]
    assert [c.algorithm.name for c in expand({"sweep": tables}, "s").configs] == [
        "fedavg", "maxfl", "maxfl",
    ]  # fmt: skip
    for bad, words in (
        ({}, "nothing to sweep over"),
        ({"sweep": {"seed": 3}}, "sweep.seed = 3; want a list"),
        ({"sweep": 3}, "sweep = 3; want a table"),
        ({"sweep": {"seed": [0, "x"]}}, "with seed = x"),
        ({"sweep": {"seed": [0, 1, 0]}}, "a combination twice in its sweep: seed = 0"),
        (
            {"sweep": [{"seed": [0, 1]}, {"seed": [1]}]},
            "twice in its sweep: seed = 1",
        ),
    ):
        with pytest.raises(InputError, match=words):
            expand(bad, "s")


def test_configurations_that_share_a_program_are_grouped():
    raw = {"sweep": {"training": {"local_lr": [0.1, 0.2]}, "seed": [0, 1]}}
    by_seed = [g.numbers for g in group(expand(raw, "s").configs)]
    assert by_seed == [[0, 2], [1, 3]], "each seed splits the data anew"
    raw = {"data": {"seed": 5}, "sweep": {"training": {"local_lr": [0.1, 0.2]}, "seed": [0, 1]}}
    assert [g.numbers for g in group(expand(raw, "s").configs)] == [[0, 1, 2, 3]]
    raw = {"data": {"seed": 5}, "sweep": {"training": {"local_steps": [1, 2]}, "seed": [0, 1]}}
    assert [g.numbers for g in group(expand(raw, "s").configs)] == [[0, 1, 2, 3]]
    raw = {"data": {"seed": 5}, "sweep": {"training": {"batch_size": [1, 2]}, "seed": [0, 1]}}
    apart = group(expand(raw, "s").configs, mask_batches=False)
    assert [g.numbers for g in apart] == [[0, 1], [2, 3]]
    together = group(expand(raw, "s").configs, mask_batches=True)
    assert [g.numbers for g in together] == [[0, 1, 2, 3]]
    assert build(together[0].configs).configurations == 4


def test_liars_robust_rules_optimisers_and_tuning_from_a_file():
    raw = {
        "data": {"seed": 0, "clients": 10, "unseen": 2, "samples": 20},
        "server": {"optimiser": "adam", "aggregation": "trimmed-mean", "clip": 2.0},
        "adversary": {"share": 0.2, "inflation": 20.0, "collude": True},
        "personal": {"tuning": 3},
        "sweep": {
            "server": {"trim": [0.1, 0.3]},
            "adversary": {"noise": [0.0, 0.1]},
            "algorithm": {"name": ["ditto"]},
        },
    }
    groups = group(expand(raw, "s").configs)
    assert [g.numbers for g in groups] == [[0, 1, 2, 3]], "numbers share a program"
    told = build(groups[0].configs).describe()
    assert told["optimiser"] == {
        "kind": "adam", "beta1": [0.9] * 4, "beta2": [0.99] * 4, "stability": [1e-3] * 4,
    }  # fmt: skip
    assert told["robust"]["rule"] == "trimmed-mean"
    assert told["robust"]["clip"] == [2.0] * 4
    assert told["robust"]["trim"] == [0.1, 0.1, 0.3, 0.3]
    assert told["adversary"]["collude"]
    assert told["adversary"]["noise"] == [0.0, 0.1, 0.0, 0.1]
    assert told["tuning"] == [3] * 4
    idle = validate({"adversary": {"noise": 1.0}, "server": {"trim": 0.1, "beta2": 0.5}}, "f")
    assert [note.split()[0] for note in unused(idle)] == [
        "adversary.noise", "server.beta2", "server.trim",
    ]  # fmt: skip


def test_every_example_is_valid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples/make_own_data.py"))
    examples = [*sorted((ROOT / "examples").glob("*.toml")), ROOT / "src/maxfl/cli/demo.toml"]
    assert len(examples) >= 3
    for path in examples:
        raw = read_toml(path)
        configs = expand(raw, str(path)).configs if "sweep" in raw else [validate(raw, str(path))]
        data = configs[0].data
        files = entry(data.source, data.part, data.vectors).files if data.file is None else ()
        if all(map(find, files)):  # where the full data sets are here
            build(configs[:1])


def test_own_arrays_from_a_file(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "mine.npz"
    owner = np.repeat(["eve", "bob", "ann"], [10, 20, 30])
    np.savez(path, x=rng.normal(size=(60, 5)), y=rng.integers(0, 2, 60), client=owner)
    raw = {"data": {"source": "arrays", "file": str(path), "partition": "by-owner", "unseen": 1}}
    fed = build_federation(validate(raw, "mine"))
    assert fed.clients == 3
    assert fed.seen == 2
    sizes = dict(zip(fed.names.tolist(), fed.train_sizes + fed.test_sizes, strict=True))
    assert sizes == {"eve": 10, "bob": 20, "ann": 30}


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros((3, 2))}, "but not .'y'."),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2, int)}, r"x has shape \(3, 2\) and y \(2,\)"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(3)}, "labels are float64"),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0, int)}, "is empty"),
        ({"x": np.zeros(()), "y": np.zeros((), int)}, "x has shape"),
        ({"x": np.full((3, 2), np.nan), "y": np.zeros(3, int)}, "6 feature value.s. are NaN"),
        (
            {"x": np.zeros((3, 2)), "y": np.zeros(3, int), "client": np.zeros(3)},
            "client is float64.3.; want one integer or string",
        ),
        ({"x": np.zeros((3, 2)), "y": np.array([0, -1, 1])}, "labels run from -1 to 1"),
        ({"x": np.zeros((3, 2)), "y": np.array([0, 1, 10**9])}, "label 1000000000 in 3 samples"),
        (None, "is not an .npz file, or was cut off"),
    ],
)
def test_unreadable_arrays_are_refused(tmp_path, arrays, words):
    path = tmp_path / "mine.npz"
    if arrays is None:
        np.savez(path, x=np.zeros(1000))
        path.write_bytes(path.read_bytes()[:300])
    else:
        np.savez(path, **arrays)
    with pytest.raises(InputError, match=words):
        load_arrays(path)


def test_a_file_of_one_array_is_refused(tmp_path):
    np.save(tmp_path / "mine.npy", np.zeros((3, 2)))
    with pytest.raises(InputError, match="holds one array"):
        load_arrays(tmp_path / "mine.npy")
    with pytest.raises(InputError, match="not a readable"):
        load_arrays(tmp_path)


def test_the_defaults_are_the_engines(small, small_model):
    import maxfl

    assert maxfl.Training(**dict(RunConfig().training)) == maxfl.Training()
    assert RunConfig().requirement.steps == maxfl.solo().steps
    server = RunConfig().server
    rates = (server.beta1, server.beta2, server.stability)
    assert rates == maxfl.server_optimizers.adam().rates
    assert maxfl.Simulation(small, small_model, maxfl.maxfl()).training == maxfl.Training()
