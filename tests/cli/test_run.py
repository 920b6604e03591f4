"""``maxfl run`` and ``maxfl sweep``: folders, tables, mistakes, and an end by Ctrl-C."""

import json
import re
import signal
import subprocess
import sys
import time
import warnings

import pyarrow.parquet as pq
import pytest

from maxfl.cli.app import app
from maxfl.runs.build import Group, group
from maxfl.runs.configs.file import validate
from maxfl.runs.folder import RunFolder
from maxfl.runs.grid import Grid
from maxfl.runs.sweep import (
    _Groups,
    _tell_of_moving_requirements,
    _tell_of_other_judging,
    _unused_in_all,
)
from maxfl.runs.tables import Labels, metrics_table, to_parquet
from maxfl.utils.errors import InputError
from maxfl.utils.paths import TABLES
from support.commands import ENVIRONMENT, LISTENING, ROOT, small, start_maxfl
from support.made_runs import make_history, settings_of, write_run
from support.own_modules import DATA, METHOD, MODEL


def test_run_writes_a_folder_and_shows_a_table(tmp_path, maxfl):
    out = tmp_path / "one"
    text = start_maxfl("run", "examples/opt-out.toml", "--out", out, *small("seed=3"))
    for word in ("GM-Appeal", "seen", "unseen", "test accuracy", "preferred model"):
        assert word in text
    assert json.loads((out / "summary.json").read_text())["rounds"] == 4
    settings = json.loads((out / "experiment.json").read_text())["config"]
    assert settings["data"]["samples"] == 20
    assert settings["model"]["hidden"] == [8]
    assert "already holds a finished run" in maxfl(
        "run", "examples/opt-out.toml", "--out", out, *small("seed=3"), code=2
    )
    assert "GM-Appeal" in maxfl(
        "run", "examples/opt-out.toml", "--out", out, *small("seed=3"), "--resume"
    )
    other = maxfl("run", "examples/opt-out.toml", "--out", out, *small("seed=4"), code=2)
    assert "another experiment" in other
    assert "config.seed (3 there, 4 here)" in other


@pytest.mark.slow
def test_resuming_with_a_damaged_summary_is_explained(tmp_path, maxfl):
    arguments = ["run", "examples/opt-out.toml", "--out", tmp_path / "one", *small("seed=3")]
    maxfl(*arguments)
    for content in ("{}", '{"files": []}', "null", '{"configurations": [null]}'):
        (tmp_path / "one/summary.json").write_text(content)
        assert "summary.json" in maxfl(*arguments, "--resume", code=2)


def test_a_list_is_given_once(maxfl):
    twice = ["--over", "seed=[0, 1]", "--over", "seed=[2]"]
    assert "--over seed is given twice" in maxfl("sweep", "examples/opt-out.toml", *twice, code=2)
    lines = "training.rounds=3\nx=4"
    assert "one setting at a time" in maxfl("run", "examples/opt-out.toml", "--set", lines, code=2)


@pytest.mark.slow
def test_sweep_collects_its_groups(tmp_path, maxfl):
    out = tmp_path / "many"
    text = maxfl(
        "sweep", "examples/opt-out.toml", "--out", out, *small(leave_out=("data.unseen",)),
        "--over", "data.unseen=[4, 0]", "--over", "seed=[0, 1]",
    )  # fmt: skip
    assert "±" in text
    summary = json.loads((out / "summary.json").read_text())
    assert [c["values"]["seed"] for c in summary["configurations"]] == [0, 1, 0, 1]
    table = pq.read_table(out / "history.parquet").to_pydict()
    assert set(table["configuration"]) == {0, 1, 2, 3}
    assert len(table["round"]) == 2 * 3 * (10 + 6)


def test_groups_whose_values_are_of_other_types_are_put_together(tmp_path):
    values = [{"requirement.local_lr": rate} for rate in ("training", 0.01)]
    groups = [Group([n], []) for n in range(2)]
    for n, chosen in enumerate(values):
        history = make_history(4, 2)
        folder = write_run(tmp_path / f"groups/{n:04d}", history, settings_of("maxfl"))
        table = metrics_table(history, Labels([n], [chosen]), [0])
        (folder / "metrics.parquet").write_bytes(to_parquet(table))
    (tmp_path / "experiment.json").write_text("{}")
    _Groups(Grid(values, []), groups, RunFolder(tmp_path, TABLES), (), None)._put_together()
    table = pq.read_table(tmp_path / "metrics.parquet")
    assert set(table["requirement.local_lr"].to_pylist()) == {"training", "0.01"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("swept", "settings", "words"),
    [
        ("optimizer", {}, "trained with the local optimizer"),
        ("local_lr", {"local_lr": "training"}, "training.local_lr, in .* set requirement.loc"),
        ("batch_size", {"local_lr": "training", "batch_size": "training"},
         "with training.local_lr and training.batch_size"),
        ("local_lr", {"batch_size": "training"}, None),
        ("local_lr", {}, None),
        ("local_lr", {"local_lr": "training", "kind": "fixed", "loss": 1.0}, None),
    ],
)  # fmt: skip
def test_a_sweep_that_moves_requirements_says_so(swept, settings, words):
    """Groups of one batch size each would not notice."""
    table, values = {
        "local_lr": ("training", [0.1, 0.2]),
        "batch_size": ("training", [8, 16]),
        "optimizer": ("local", ["sgd", "adam"]),
    }[swept]
    configs = [validate({table: {swept: value}, "requirement": settings}, "it") for value in values]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _tell_of_moving_requirements(configs)
    assert len(said) == (words is not None)
    assert words is None or re.search(words, str(said[0].message))


@pytest.mark.parametrize(
    ("settings", "has_own", "moves"),
    [
        ([{"judge": "training"}, {}], False, True),
        ([{"judge": "training"}, {}], True, True),
        ([{"judge_fraction": 0.5}, {}], False, True),
        ([{"judge_fraction": 0.5}, {}], True, False),
        ([{"judge": "training", "judge_fraction": 0.5}, {"judge": "training"}], False, False),
        ([{"judge": judge, "kind": "fixed", "loss": 1.0} for judge in ("training", "held-out")],
         False, False),
    ],
)  # fmt: skip
def test_a_sweep_over_what_clients_judge_by_says_that_requirements_differ(settings, has_own, moves):
    grouped = group([validate({"requirement": table}, "it") for table in settings])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        _tell_of_other_judging(grouped, [has_own] * len(grouped))
    assert [str(each.message)[:35] for each in said] == [
        "what clients require differs betwee"
    ] * moves


def test_a_fraction_that_no_configuration_holds_out_is_pointed_at():
    fractions = [validate({"requirement": {"judge_fraction": f}}, "it") for f in (0.3, 0.5)]
    (note,) = _unused_in_all(group(fractions), [True, True])
    assert note.startswith("requirement.judge_fraction does nothing here")
    assert _unused_in_all(group(fractions), [True, False]) == []
    assert _unused_in_all(group([*fractions, validate({}, "it")]), [True] * 3) == []


@pytest.mark.filterwarnings("always::maxfl.TrainingWarning")
def test_what_clients_judge_by_is_noted_before_training(tmp_path, maxfl):
    rows = [f"{who},{n % 5},{n % 2},{part}" for who in "abc" for n in range(4)
            for part in ("train", "judging", "test")]  # fmt: skip
    (tmp_path / "t.csv").write_text("\n".join(["who,x,y,part", *rows]))
    columns = 'client_column = "who"\nlabel_column = "y"\nsplit_column = "part"'
    file = tmp_path / "own.toml"
    file.write_text(
        f'[data]\nfile = "{tmp_path}/t.csv"\n{columns}\n[training]\ncohort = 2\n'
        f"[requirement]\njudge_fraction = 0.5"
    )
    said = maxfl("run", file, "--out", "README.md", code=2)
    assert "judge_fraction does nothing here: the data have a judging" in " ".join(said.split())
    over = ("--over", 'requirement.judge=["held-out", "training"]')
    said = maxfl("sweep", file, "--out", "README.md", *over, code=2)
    assert "trained on, and judged by, other parts of their data" in " ".join(said.split())


@pytest.mark.slow
def test_methods_with_and_without_personal_models_side_by_side(tmp_path, maxfl):
    over = ("--over", 'algorithm.name=["fedavg", "ditto"]')
    text = maxfl("sweep", "examples/opt-out.toml", "--out", tmp_path / "o", *small(), *over)
    assert "seen, personal" in text
    table = pq.read_table(tmp_path / "o/history.parquet")
    empty = [v is None for v in table["personal_test_loss"].to_pylist()]
    assert empty == [c == 0 for c in table["configuration"].to_pylist()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nowhere.toml"], "there is no such file"),
        (["run", "src"], "src is a folder: name a TOML file"),
        (["run", "examples/opt-out.toml", "--out", "README.md"], "README.md is a file: name a new"),
        (["sweep", "examples/opt-out.toml", "--over", "seed=[]"], "sweep.seed is an empty list"),
        (["run", "examples/sweep.toml", "--set", "personal.tuning=1"], "has 1 mistake:"),
        (["flower", "new", "README.md"], "README.md is a file: name a new folder"),
        (["demo", "--set", "seed=3"], "this sweep has a list for it"),
        (["run", "examples/opt-out.toml", "--set", "training.ronds=3"], "unknown key"),
        (["run", "examples/opt-out.toml", "--set", "training.cohort=51"], "only 50 seen clients"),
        (["run", "examples/opt-out.toml", "--set", "data.samples=500"], "the data set has 12000"),
        (["run", "examples/opt-out.toml", "--out", "/proc/none"], "can't use /proc/none"),
        (["sweep", "examples/opt-out.toml"], "nothing to sweep over: add a table [sweep] with"),
        (["run", "examples/sweep.toml"], "has a table [sweep]: use maxfl sweep"),
        (["run", "[/b].toml"], "[/b].toml: there is no such file"),
        (["sweep", "examples/sweep.toml", "--over", "seed"], "--over seed: expected key=value"),
        (["sweep", "examples/sweep.toml", "--set", "seed=5"], "this sweep has a list for it"),
        (["run", "examples/opt-out.toml", "--set", "seed=x"], "opt-out.toml with --set seed has 1"),
        (
            ["run", "examples/large.toml", "--processes", "2"],
            "go together: give --coordinator and --process too",
        ),
    ],
)
def test_mistakes_are_explained(arguments, words, monkeypatch):
    """What a user then sees is the next test's."""
    monkeypatch.chdir(ROOT)
    with pytest.raises(InputError) as caught:
        app(arguments, standalone_mode=False)
    assert words in str(caught.value)


def test_a_mistake_ends_in_one_message():
    text = start_maxfl("run", "examples/sweep.toml", code=2)
    assert "Error: examples/sweep.toml has a table [sweep]: use maxfl sweep" in text
    assert "Traceback" not in text


@pytest.mark.processes
@pytest.mark.parametrize(
    ("number", "word", "code"),
    [(signal.SIGINT, "Interrupted", 130), (signal.SIGTERM, "Terminated", 143)],
)
def test_an_end_by_a_signal_says_how_to_go_on(tmp_path, number, word, code):
    out = tmp_path / "cut"
    settings = ["run", "examples/opt-out.toml", "--out", str(out), *small("training.rounds=100000")]
    with subprocess.Popen(
        [sys.executable, "-c", LISTENING, *settings], env=ENVIRONMENT, stderr=subprocess.PIPE,
        text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 120
        while not (out / "checkpoint/block-00001").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert (out / "checkpoint/block-00001").exists()
        process.send_signal(number)
        words = process.stderr.read()
        assert process.wait(timeout=60) == code
    words = " ".join(words.split())
    assert f"{word}. {out} keeps what is done: add --resume to go on." in words
    assert "Traceback" not in words


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.05, 0.15, 0.3, 0.6, 1.0, 1.5, 2.5])
def test_ctrl_c_while_modules_are_imported_ends_in_a_word(tmp_path, after):
    program = LISTENING.replace("; from", "; print(flush=True); from")
    settings = ["run", "examples/opt-out.toml", "--out", str(tmp_path / "cut"), *small()]
    with subprocess.Popen(
        [sys.executable, "-c", program, *settings], env=ENVIRONMENT, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        process.stdout.readline()
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=60)
    assert "Traceback" not in words, words
    assert process.returncode in (0, 130)


OWN = """
seed = 3
[data]
source = "own_data:federation"
[model]
name = "own_model:dense"
[algorithm]
name = "own_method:lossweighted"
[training]
rounds = 2
cohort = 2
local_steps = 2
evaluate_every = 2
[requirement]
steps = 2
"""


@pytest.mark.slow
def test_own_code_from_a_file_to_a_report(maxfl, own_code, monkeypatch):
    folder = own_code(own_method=METHOD, own_model=MODEL, own_data=DATA)
    (folder / "own.toml").write_text(OWN)
    maxfl("sweep", "own.toml", "--over", "algorithm.power=[0, 2]")
    maxfl("run", "own.toml")
    assert "own_method:lossweighted after 2 rounds" in maxfl("run", "own.toml", "--resume")
    own_code(own_method=f"{METHOD}\n# changed\n")
    for command, kind in (("run", "a single run"), ("sweep", "a sweep")):
        over = ["--over", "algorithm.power=[0, 2]"] if command == "sweep" else []
        text = maxfl(command, "own.toml", "--resume", *over, code=2)
        assert f"({kind}), which differs in code.own_method.py (SHA-256 " in text
    monkeypatch.chdir("/")
    for name in ("own_method.py", "own_model.py", "own_data.py"):
        (folder / name).unlink()
    runs = folder / "runs"
    assert "the module own_" in maxfl(
        "run", folder / "own.toml", "--resume", "--out", runs / "own", code=2
    )
    assert "lossweighted, power 0" in maxfl("report", runs / "own-sweep", "--no-figures")
    assert "Finished" in maxfl("watch", runs / "own")
    assert "whole" in maxfl("check", runs / "own-sweep")
