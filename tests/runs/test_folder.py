"""A folder holds one experiment: it is never overwritten, never shared, never taken by another."""

import fcntl
import json
import os
from importlib.metadata import version

import pytest

import maxfl
from maxfl.runs.folder import RunFolder
from maxfl.runs.run import run
from maxfl.utils import disk_space
from support.resumable import cut_off, simulation
from support.small import DROPOUT_MODEL, MODEL


@pytest.fixture
def folder(tmp_path):
    """A folder with a run that was cut off in the middle."""
    return cut_off(tmp_path / "run", blocks=2)


def test_a_folder_with_a_run_is_not_overwritten(folder):
    with pytest.raises(maxfl.InputError, match="already holds an unfinished run"):
        run(simulation(), folder)


def test_another_experiment_is_refused_by_name(folder):
    assert DROPOUT_MODEL is not MODEL
    for other, words in (
        (simulation(seed=7), r"seed \(0 there, 7 here\)"),
        (simulation({"local_lr": 0.1}), r"training.local_lr \(0.2 there, 0.1 here\)"),
        (simulation(model=MODEL), "differs in model"),
        (simulation(participation=maxfl.everyone()), r"participation.rule \(opt-out there"),
    ):
        with pytest.raises(maxfl.InputError, match=words):
            run(other, folder, resume=True)


def test_a_finished_run_with_missing_files_is_refused(folder):
    run(simulation(), folder, resume=True)
    (folder / "rounds.parquet").unlink()
    with pytest.raises(maxfl.InputError, match=r"rounds.parquet is gone"):
        run(simulation(), folder, resume=True)


def test_resuming_a_finished_run_changes_nothing(folder):
    run(simulation(), folder, resume=True)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    run(simulation(), folder, resume=True)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_two_processes_do_not_share_a_folder(folder):
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with pytest.raises(maxfl.InputError, match="another process is at work"):
            run(simulation(), folder, resume=True)
    finally:
        os.close(held)


def test_a_folder_is_locked_while_its_run_goes_on(folder):
    def try_to_enter(*_):
        with pytest.raises(maxfl.InputError, match="another process is at work"):
            run(simulation(), folder, resume=True)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(simulation(), folder, resume=True, progress=try_to_enter)


def test_a_foreign_folder_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(maxfl.InputError, match="not empty and holds no run"):
        run(simulation(), tmp_path, resume=True)
    assert (tmp_path / "thesis.tex").read_text() == "mine"


@pytest.mark.parametrize("kind", ["a run", "a study"])
def test_what_another_version_wrote_is_refused_with_its_name(tmp_path, kind):
    here = {"federation": "f", "maxfl": version("maxfl")} if kind == "a run" else {"study": "s"}
    old = {"a run": {"maxfl": "0.1.0", "federation": "f"}, "a study": {"study": "other"}}[kind]
    (tmp_path / "experiment.json").write_text(json.dumps(old))
    place = RunFolder(tmp_path, ())
    with (
        pytest.raises(maxfl.InputError, match=r"was written by maxfl 0\.1\.0") as refused,
        place.claim(here, resume=True),
    ):
        pass
    assert "maxfl report" not in str(refused.value), "nothing is finished there"


def test_what_does_not_name_its_version_goes_on_after_an_upgrade(tmp_path):
    place = RunFolder(tmp_path, ())
    with place.claim({"study": "s"}, resume=False):
        written = json.loads((tmp_path / "experiment.json").read_text())
    assert written == {"maxfl": version("maxfl"), "study": "s"}
    (tmp_path / "experiment.json").write_text(json.dumps({**written, "maxfl": "0.1.9"}))
    with place.claim({"study": "s"}, resume=True) as finished:
        assert not finished


def test_a_refusal_for_want_of_room_claims_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_space, "free_space", lambda _: 100)
    folder = tmp_path / "run"
    with pytest.raises(maxfl.InputError, match="the run will take"):
        run(simulation({"rounds": 100_000}), folder)
    assert not folder.exists()
    monkeypatch.undo()
    run(simulation({"rounds": 3}), folder)


@pytest.mark.parametrize("training", [{"rounds": 7}, {"rounds": 199}])
def test_a_run_takes_no_more_room_than_was_predicted(tmp_path, monkeypatch, training):
    folder, largest = tmp_path / "run", 0
    real = os.fsync

    def measure(descriptor):
        nonlocal largest
        real(descriptor)
        inside = [*folder.rglob("*"), folder]
        largest = max(largest, sum(path.lstat().st_blocks * 512 for path in inside))

    monkeypatch.setattr(os, "fsync", measure)
    made = simulation(training)
    run(made, folder)
    assert 0.4 * made.resources.min_folder_bytes < largest <= made.resources.min_folder_bytes


@pytest.mark.parametrize("content", ["null", "[]", "{}", '{"groups": 3}', '{"config": [1]}', "{"])
def test_a_damaged_description_is_refused(tmp_path, content):
    (tmp_path / "experiment.json").write_text(content)
    with pytest.raises(
        maxfl.InputError, match=r"experiment\.json|already holds another|written by"
    ):
        run(simulation(), tmp_path, resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["experiment.json"]
