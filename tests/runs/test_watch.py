"""Watching a run does not disturb it, and tells how far it is."""

import subprocess
import sys
import time

import pytest
import typer

from support.made_runs import make_history, settings_of, write_run
from maxfl.cli.report import watch_command
from maxfl.runs.progress import PROGRESS, Live
from maxfl.runs.watch import look
from maxfl.utils.errors import InputError
from maxfl.utils.files import write_json

EXPERIMENT = "experiment.json"


def started(folder, **changes):
    """A run folder at work in this process: 4 of 10 rounds done."""
    folder.mkdir(parents=True)
    write_json(folder / EXPERIMENT, {"federation": "x"})
    live = Live(folder, [{"seed": 3}], None)
    live.measured(make_history(6, 4))
    live.state = live.state._replace(**changes)
    live.report("rounds", 4, 10)
    return live


def test_a_run_at_work_is_told(tmp_path):
    started(tmp_path / "run", began=time.time() - 20)
    seen = look(tmp_path / "run")
    history = make_history(6, 4)
    assert (seen.done, seen.total, seen.finished, seen.alive) == (4, 10, False, True)
    assert seen.left == pytest.approx(30, abs=1)
    ((label, latest),) = seen.rows
    assert label == "seed 3"
    assert latest["gm_appeal"] == pytest.approx(history.gm_appeal()[0, -1], abs=1e-4)
    assert len(seen.trail["gm_appeal"]) == 5


def test_time_left_counts_only_this_processs_rounds(tmp_path):
    live = started(tmp_path / "run", began=time.time() - 20, first=2)
    live.report("rounds", 4, 10)
    assert look(tmp_path / "run").left == pytest.approx(60, abs=2)


def test_a_killed_run_is_known(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    started(tmp_path / "run", pid=gone.pid)
    seen = look(tmp_path / "run")
    assert (seen.alive, seen.left) == (False, None)
    with pytest.raises(typer.Exit) as ended:
        watch_command(tmp_path / "run", every=1, once=False)
    assert ended.value.exit_code == 1
    started(tmp_path / "far", host="another machine")
    assert look(tmp_path / "far").alive is None


def test_stages_before_the_first_round(tmp_path):
    live = started(tmp_path / "run")
    live.state = live.state._replace(at=0)  # long ago, so that the next stage is written at once
    live.report("solo training", 5, 100)
    seen = look(tmp_path / "run")
    assert (seen.stage, seen.total, seen.left) == ("solo training", 0, None)


def test_a_sweep_adds_its_groups_up(tmp_path):
    write_json(tmp_path / EXPERIMENT, {"configurations": {}, "groups": {"0": {}, "1": {}, "2": {}}})
    with pytest.raises(InputError, match="is no folder"):
        look(tmp_path / "nowhere")
    assert look(tmp_path).stage == "the sweep has not begun to train"
    run = write_run(tmp_path / "groups/0000", make_history(4, 10), settings_of("fedavg"))
    figures = {"gm_appeal": {"held-out": 0.5}, "test_accuracy": 0.25, "willing": 1.0}
    summary = {"rounds": 10, "configurations": [{"values": {"seed": 1}, "seen": figures}]}
    write_json(run / "summary.json", summary)
    started(tmp_path / "groups/0001")
    seen = look(tmp_path)
    assert (seen.done, seen.total, seen.finished) == (14, 30, False)
    assert seen.stage == "1 of 3 groups finished, training"
    assert seen.rows[0] == ("seed 1", {"gm_appeal": 0.5, "test_accuracy": 0.25, "willing": 1.0})


def test_progress_of_another_version_is_told(tmp_path):
    started(tmp_path / "run")
    write_json(tmp_path / "run" / PROGRESS, {"done": 4})
    with pytest.raises(InputError, match="is not as this version writes it"):
        look(tmp_path / "run")


def test_folders_without_a_run_are_told(tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        look(tmp_path)


def test_the_command_shows_panels_and_touches_nothing(tmp_path, capsys):
    started(tmp_path / "run")
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    with pytest.raises(typer.Exit) as ended:
        watch_command(tmp_path / "run", every=1, once=True)
    assert ended.value.exit_code == 0
    shown = capsys.readouterr().out
    assert "4 of 10 rounds" in shown
    assert "GM-Appeal" in shown
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before


def test_watching_a_real_run_until_it_ends(tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(
        '[data]\nsource = "fashion-mnist-12k"\nclients = 4\nsamples = 20\n[training]\n'
        "rounds = 200\ncohort = 2\nlocal_steps = 2\nblock = 2\n[requirement]\nsteps = 2\n"
    )
    command = [sys.executable, "-c", "from maxfl.cli import main; main()"]
    run = subprocess.Popen([*command, "run", config, "--out", tmp_path / "run"])
    try:
        deadline = time.monotonic() + 90
        while not (tmp_path / "run" / PROGRESS).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        watched = subprocess.run(
            [*command, "watch", tmp_path / "run", "--every", "0.2"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert run.wait(60) == 0
    finally:
        run.kill()
    assert watched.returncode == 0, watched.stderr
    assert "Finished. Look at it: maxfl report" in watched.stdout
