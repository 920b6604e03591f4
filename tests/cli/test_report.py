"""``maxfl watch`` and ``maxfl report --live``: what they show, until the run or the user ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import typer

from maxfl.cli.report import watch_command
from maxfl.runs.progress import PROGRESS
from support.commands import LISTENING
from support.made_runs import REGRESSION, started


def test_the_command_shows_panels_and_touches_nothing(tmp_path, capsys):
    started(tmp_path / "run")
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    with pytest.raises(typer.Exit) as ended:
        watch_command(tmp_path / "run", every=1, once=True)
    assert ended.value.exit_code == 0
    output = capsys.readouterr().out
    assert "4 of 10 rounds" in output
    assert "GM-Appeal" in output
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before


def test_the_panel_names_the_models_metric(tmp_path, capsys):
    started(tmp_path / "run", metrics=REGRESSION)
    with pytest.raises(typer.Exit):
        watch_command(tmp_path / "run", every=1, once=True)
    output = capsys.readouterr().out
    assert re.search(r"mae +[▁-█]+ 1\.\d\d", output)
    assert "accuracy" not in output


@pytest.mark.slow
def test_watching_a_real_run_until_it_ends(tmp_path, capsys):
    code = (
        "import conftest, maxfl, sys\n"
        "from support.resumable import simulation\n"
        "maxfl.run(simulation({'rounds': 399}), sys.argv[1])\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    run = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "run")], env=env)
    try:
        deadline = time.monotonic() + 90
        while not (tmp_path / "run" / PROGRESS).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        watch_command(tmp_path / "run", every=0.2)
        assert run.wait(60) == 0
    finally:
        run.kill()
    assert "Finished. Look at it: maxfl report" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--live", "--out", "elsewhere"], "--out and --live: a live page writes nothing"),
        (["--live", "--force"], "--force and --live"),
        (["--live", "--no-figures"], "--no-figures and --live"),
        (["--port", "8000"], "--port is that of a live page: add --live"),
    ],
)
def test_what_does_not_go_with_a_live_page(maxfl, tmp_path, options, said):
    started(tmp_path / "run")
    assert said in maxfl("report", tmp_path / "run", *options, code=2)


@pytest.mark.processes
def test_a_live_page_is_served_until_it_is_interrupted(tmp_path):
    started(tmp_path / "run")
    command = [sys.executable, "-uc", LISTENING, "report", tmp_path / "run", "--live"]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        address = served.stdout.readline().split()[0]
        with urllib.request.urlopen(f"{address}status.json") as answer:
            (work,) = json.load(answer)["work"]
        assert work["headline"].startswith("training, 4 of 10 rounds")
        served.send_signal(signal.SIGINT)
        assert "no longer served" in served.communicate(timeout=20)[0]
    finally:
        served.kill()
