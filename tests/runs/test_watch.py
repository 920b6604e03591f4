"""Watching a run does not disturb it, and tells how far it is."""

import subprocess
import sys
import time

import pytest
import typer

import maxfl
from maxfl.cli.report import watch_command
from maxfl.runs.progress import PROGRESS
from maxfl.runs.watch import read_status
from maxfl.utils.errors import InputError
from maxfl.utils.files import write_json
from support import small
from support.made_runs import make_history, settings_of, started, write_run

EXPERIMENT = "experiment.json"


def test_a_run_at_work_is_told(tmp_path):
    started(tmp_path / "run", began=time.time() - 20)
    status = read_status(tmp_path / "run")
    history = make_history(6, 4)
    assert (status.done, status.total, status.finished, status.alive) == (4, 10, False, True)
    assert status.left == pytest.approx(30, abs=1)
    ((label, latest),) = status.rows
    assert label == "seed 3"
    assert latest["gm_appeal"] == pytest.approx(history.gm_appeal()[0, -1], abs=1e-4)
    assert len(status.trail["gm_appeal"]) == 5


def test_time_left_counts_only_this_processs_rounds(tmp_path):
    progress = started(tmp_path / "run", began=time.time() - 20, first=2)
    progress.report("rounds", 4, 10)
    assert read_status(tmp_path / "run").left == pytest.approx(60, abs=2)


def test_a_killed_run_is_known(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    started(tmp_path / "run", pid=gone.pid)
    status = read_status(tmp_path / "run")
    assert (status.alive, status.left) == (False, None)
    with pytest.raises(typer.Exit) as ended:
        watch_command(tmp_path / "run", every=1, once=False)
    assert ended.value.exit_code == 1
    started(tmp_path / "far", host="another machine")
    assert read_status(tmp_path / "far").alive is None


def test_stages_before_the_first_round(tmp_path):
    progress = started(tmp_path / "run")
    progress.state = progress.state._replace(at=0)  # long ago: written at once
    progress.report("solo training", 5, 100)
    status = read_status(tmp_path / "run")
    assert (status.stage, status.total, status.left) == ("solo training", 0, None)


def test_a_sweep_adds_its_groups_up(tmp_path):
    write_json(tmp_path / EXPERIMENT, {"configurations": {}, "groups": {"0": {}, "1": {}, "2": {}}})
    with pytest.raises(InputError, match="is no folder"):
        read_status(tmp_path / "nowhere")
    assert read_status(tmp_path).stage == "the sweep has not begun to train"
    run = write_run(tmp_path / "groups/0000", make_history(4, 10), settings_of("fedavg"))
    figures = {"gm_appeal": {"test": 0.5}, "test_accuracy": 0.25, "willing": 1.0}
    summary = {"rounds": 10, "configurations": [{"values": {"seed": 1}, "seen": figures}]}
    write_json(run / "summary.json", summary)
    started(tmp_path / "groups/0001")
    status = read_status(tmp_path)
    assert (status.done, status.total, status.finished) == (14, 30, False)
    assert status.stage == "1 of 3 groups finished, training"
    assert status.rows[0] == ("seed 1", {"gm_appeal": 0.5, "test_accuracy": 0.25, "willing": 1.0})


def test_progress_of_another_version_is_told(tmp_path):
    started(tmp_path / "run")
    write_json(tmp_path / "run" / PROGRESS, {"done": 4})
    with pytest.raises(InputError, match="is not as this version writes it"):
        read_status(tmp_path / "run")


def test_folders_without_a_run_are_told(tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        read_status(tmp_path)


@pytest.mark.parametrize("content", ["null", "[]", "{}", '{"groups": 3}', "{", '{"a": 1}'])
def test_a_damaged_description_is_no_study(tmp_path, content):
    (tmp_path / EXPERIMENT).write_text(content)
    with pytest.raises(InputError, match=r"damaged|can't be read"):
        read_status(tmp_path)


@pytest.mark.parametrize(
    "content", ["null", "[]", "{}", '{"configurations": [1]}', '{"rounds": []}']
)
def test_a_damaged_summary_is_said_to_be(tmp_path, content):
    write_json(tmp_path / EXPERIMENT, {"federation": "x"})
    (tmp_path / "summary.json").write_text(content)
    with pytest.raises(InputError, match="damaged"):
        read_status(tmp_path)


def test_a_run_gives_a_sign_of_life_before_anything_is_trained(tmp_path, monkeypatch):
    """Compiling and solo training may take minutes, in which it has begun and is alive."""
    seen = []
    made = small.simulation(maxfl.fedavg())
    monkeypatch.setattr(
        made, "prepare", lambda *_: seen.append(read_status(tmp_path / "run")) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        maxfl.run(made, tmp_path / "run")
    assert (seen[0].stage, seen[0].alive) == ("starting", True)


def test_warnings_are_shown(tmp_path, capsys):
    progress = started(tmp_path / "run")
    progress.warn(["no client had a weight above 0"])
    progress.begin()
    assert read_status(tmp_path / "run").warnings == ["no client had a weight above 0"]
    with pytest.raises(typer.Exit):
        watch_command(tmp_path / "run", once=True)
    assert "no client had a weight above 0" in capsys.readouterr().out
