"""``maxfl init``: files that run as they are written."""

import runpy

import pytest

from support.commands import small


@pytest.fixture(autouse=True)
def new_folder(tmp_path, monkeypatch, maxfl):
    monkeypatch.chdir(tmp_path)
    return maxfl


def test_files_are_written_once(maxfl, tmp_path):
    assert "Written: run.toml. Change it, then: maxfl run run.toml" in maxfl("init")
    before = (tmp_path / "run.toml").read_text()
    assert "run.toml is there already, and stays as it is" in maxfl("init", code=2)
    assert (tmp_path / "run.toml").read_text() == before
    assert "python own.py" in maxfl("init", "--python", "own.py")
    script = (tmp_path / "own.py").read_text()
    assert 20 <= len(script.splitlines()) <= 40
    assert '"server_schedule": maxfl.schedules.exponential(0.18)' in script
    assert script.count("**others") == 2


def test_mistakes_are_named(maxfl):
    assert "name a file that ends in .toml, or add --python" in maxfl("init", "x.py", code=2)
    assert "name a file that ends in .py" in maxfl("init", "--python", "x.toml", code=2)
    assert "can't write nowhere/x.toml: No such file" in maxfl("init", "nowhere/x.toml", code=2)


@pytest.mark.slow
def test_the_file_trains(maxfl):
    maxfl("init")
    assert "maxfl-auto after 4 rounds" in maxfl("run", "run.toml", *small())


@pytest.mark.slow
def test_the_script_runs(maxfl, tmp_path, capsys):
    maxfl("init", "--python")
    runpy.run_path("run.py")
    assert "Share of clients whose requirement is met" in capsys.readouterr().out
    assert (tmp_path / "runs/compared/report.html").is_file()
