"""The command as a person uses it: a real process, real files, clear words."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maxfl.cli.app import app
from maxfl.cli.terminal import show_summary
from maxfl.utils.errors import InputError

ROOT = Path(__file__).parents[2]
SMALL = [
    "training.rounds=4", "training.local_steps=2", "training.evaluate_every=2", "data.clients=6",
    "data.unseen=4", "data.samples=20", "requirement.steps=5", "model.hidden=[8]",
]  # fmt: skip


def maxfl(*arguments, code=0):
    """Run the command and return what it printed."""
    env = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache/jax"), "COLUMNS": "100"}
    command = [str(Path(sys.executable).parent / "maxfl"), *map(str, arguments)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def small(*more, leave_out=()):
    kept = [setting for setting in SMALL if not setting.startswith(leave_out or "-")]
    return [a for setting in (*kept, *more) for a in ("--set", setting)]


def test_help_is_there_for_everything():
    for command in ("run", "sweep", "demo", "data", "theory", "flower"):
        assert command in help_of()
    for command in ("run", "sweep", "demo"):
        assert "--out" in help_of(command)
    assert "A TOML file" in help_of("run")
    assert "JAX" in maxfl("--version")


def help_of(*command):
    """The help text, in this process."""
    return CliRunner().invoke(app, [*command, "--help"], color=False).output


def test_run_writes_a_folder_and_shows_a_table(tmp_path):
    out = tmp_path / "one"
    text = maxfl("run", "examples/opt-out.toml", "--out", out, *small("seed=3"))
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


def test_sweep_collects_its_groups(tmp_path):
    import pyarrow.parquet as pq

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


def test_methods_with_and_without_personal_models_side_by_side(tmp_path):
    import pyarrow.parquet as pq

    over = ("--over", 'algorithm.name=["fedavg", "ditto"]')
    text = maxfl("sweep", "examples/opt-out.toml", "--out", tmp_path / "o", *small(), *over)
    assert "seen, personal" in text
    table = pq.read_table(tmp_path / "o/history.parquet")
    empty = [v is None for v in table["personal_test_loss"].to_pylist()]
    assert empty == [c == 0 for c in table["configuration"].to_pylist()]


def test_the_table_of_a_sweep_over_lists(tmp_path, capsys):
    out = tmp_path / "one"
    maxfl("run", "examples/opt-out.toml", "--out", out, *small("seed=3"))
    (entry,) = json.loads((out / "summary.json").read_text())["configurations"]
    entries = [{**entry, "values": {"model.hidden": hidden}} for hidden in ([8], [4, 4])]
    show_summary(entries, "two of them")
    assert "[4, 4]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nowhere.toml"], "there is no such file"),
        (["demo", "--set", "seed=3"], "this sweep has a list for it"),
        (["run", "examples/opt-out.toml", "--set", "training.ronds=3"], "unknown key"),
        (["run", "examples/opt-out.toml", "--set", "training.cohort=51"], "only 50 seen clients"),
        (["run", "examples/opt-out.toml", "--set", "data.samples=500"], "the data set has 12000"),
        (
            ["run", "examples/opt-out.toml", "--out", "/proc/none"],
            "can't use /proc/none",
        ),
        (["sweep", "examples/opt-out.toml"], "nothing to sweep over: add a table [sweep] with"),
        (["run", "examples/sweep.toml"], "has a table [sweep]: use maxfl sweep"),
        (["run", "[/b].toml"], "[/b].toml: there is no such file"),
        (["sweep", "examples/sweep.toml", "--over", "seed"], "--over seed: want key=value"),
        (["sweep", "examples/sweep.toml", "--set", "seed=5"], "this sweep has a list for it"),
        (["run", "examples/opt-out.toml", "--set", "seed=x"], "opt-out.toml with --set seed has 1"),
        (
            ["run", "examples/large.toml", "--processes", "2"],
            "go together: give --coordinator and --process too",
        ),
    ],
)
def test_mistakes_are_said_clearly(arguments, words, monkeypatch):
    """In this process, which is quicker; what a user then sees is the next test's."""
    monkeypatch.chdir(ROOT)
    with pytest.raises(InputError) as caught:
        app(arguments, standalone_mode=False)
    assert words in str(caught.value)


def test_a_mistake_ends_in_one_message():
    text = maxfl("run", "examples/sweep.toml", code=2)
    assert "Error: examples/sweep.toml has a table [sweep]: use maxfl sweep" in text
    assert "Traceback" not in text


def test_demo_draws_its_figure(tmp_path):
    out = tmp_path / "demo"
    text = maxfl("demo", "--out", out, *small("training.rounds=6", "participation.start=2"))
    assert "FedAvg" in text
    assert "MaxFL, T = 0.3" in text
    assert "over 5 seeds" in text
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_data_are_listed_and_shown(tmp_path):
    text = maxfl("data", "list", "--dir", tmp_path)
    for words in ("fashion-mnist", "emnist-byclass", "STAND-IN", "maxfl data fetch NAME"):
        assert words in " ".join(text.split())
    assert "needs no files" in maxfl("data", "fetch", "digits")
    assert "data set = 'mnist': want one of" in maxfl("data", "fetch", "mnist", code=2)
    figure = tmp_path / "new" / "split.png"
    options = small("data.partition=shards", "data.flipped=0.2", "data.flip=shift")
    text = maxfl("data", "show", "examples/opt-out.toml", "--out", figure, *options)
    seen = next(line for line in text.splitlines() if line.strip().startswith("seen"))
    assert seen.split()[:4] == ["seen", "6", "12", "8"]
    assert figure.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(figure.with_suffix(".csv").read_text().splitlines()))
    assert [row["seen"] for row in rows] == ["1"] * 6 + ["0"] * 4
    assert sum(int(row["flipped"]) for row in rows) == 2
    for row in rows:
        assert (row["train_samples"], row["test_samples"]) == ("12", "8")
        assert sum(int(n) for name, n in row.items() if name.startswith("label ")) == 20


def test_what_data_commands_say_of_mistakes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    show = ["data", "show", "examples/sweep.toml", "--out"]
    with pytest.raises(InputError, match=r"ending of --out = '\.foo': want one of"):
        app([*show, str(tmp_path / "x.foo")], standalone_mode=False)
    app([*show, str(tmp_path / "x.svg")], standalone_mode=False)
    assert "shown without the table [sweep]" in capsys.readouterr().out
    (tmp_path / "glove.6B.zip").write_bytes(b"PK")
    app(["data", "list", "--dir", str(tmp_path)], standalone_mode=False)
    text = capsys.readouterr().out
    assert "damaged" in text
    assert "maxfl data fetch NAME" in text
    with pytest.raises(InputError, match="there is no such folder"):
        app(["data", "list", "--dir", str(tmp_path / "none")], standalone_mode=False)


def test_ctrl_c_tells_how_to_go_on(tmp_path):
    out = tmp_path / "cut"
    settings = ["run", "examples/opt-out.toml", "--out", str(out), *small("training.rounds=100000")]
    # A shell lets what it starts in the background ignore Ctrl-C; the test may be such a thing.
    listening = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"import signal; {listening}; from maxfl.cli import main; main()"
    command = [sys.executable, "-c", program, *settings]
    env = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache/jax")}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        deadline = time.monotonic() + 120
        while not (out / "checkpoint/block-00001").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert (out / "checkpoint/block-00001").exists()
        process.send_signal(signal.SIGINT)
        words = process.stderr.read()
        assert process.wait(timeout=60) == 130
    assert "add --resume to go on" in " ".join(words.split())
    assert "Traceback" not in words
