"""A run killed at any moment goes on from its last block and ends with the same bits."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pyarrow.parquet as pq
import pytest

import maxfl
from maxfl.runs.checkpoint import FORMAT
from maxfl.runs.run import run
from support import small
from support.resumable import TRAINING, cut_off, results, simulation, stop_after

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Digests of the uninterrupted run's results."""
    return results(run(simulation(), tmp_path_factory.mktemp("whole") / "run"))


@pytest.fixture
def folder(tmp_path):
    """A folder with a run that was cut off in the middle."""
    return cut_off(tmp_path / "run")


@pytest.mark.slow
def test_resumed_after_sigkill(whole, tmp_path):
    """Kill the process at three moments, the second and third while it resumes."""
    folder = tmp_path / "run"
    code = (
        "import conftest, maxfl, sys\n"
        "from support.resumable import simulation\n"
        "maxfl.run(simulation(), sys.argv[1], resume=len(sys.argv) > 2,\n"
        "    progress=lambda *a: print(*a, flush=True))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    arguments = [sys.executable, "-c", code, str(folder)]
    for kill_at in (11, 35, 59):  # rounds, after 3, 9 and 15 blocks
        with subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                stage, done, _ = line.rsplit(maxsplit=2)
                if stage == "rounds" and int(done) >= kill_at:
                    os.kill(process.pid, signal.SIGKILL)
                    break
            process.wait(timeout=60)
            assert process.returncode == -signal.SIGKILL
        assert not (folder / "summary.json").exists()
        blocks = json.loads((folder / "checkpoint/checkpoint.json").read_text())["blocks"]
        assert blocks >= (kill_at + 1) // 4
        arguments = [*arguments[:4], "resume"]
    run(simulation(), folder, resume=True)
    assert results(folder) == whole
    assert not (folder / "checkpoint").exists()


@pytest.mark.parametrize("moment", ["before", "halfway", "after"])
def test_resumed_after_dying_in_any_write(whole, tmp_path, monkeypatch, moment):
    """Die before, in the middle of and after moving each file into place, one after another."""
    folder = tmp_path / "run"
    real = Path.replace
    calls = 0

    def dying(self, target):
        nonlocal calls
        calls += 1
        if calls == fatal:
            if moment == "halfway":
                self.write_bytes(self.read_bytes()[: self.stat().st_size // 2])
            if moment == "after":
                real(self, target)
            raise KeyboardInterrupt
        return real(self, target)

    monkeypatch.setattr(Path, "replace", dying)
    # Each attempt dies one write later than the last, and resumes what that one left behind.
    for fatal in [*range(1, 12), 40]:  # noqa: B007 (read in dying)
        calls = 0
        with pytest.raises(KeyboardInterrupt):
            run(simulation(), folder, resume=folder.exists() and any(folder.iterdir()))
    monkeypatch.setattr(Path, "replace", real)
    run(simulation(), folder, resume=True)
    assert results(folder) == whole


def test_a_method_without_hyperparameters_runs_in_a_folder(tmp_path):
    made = small.simulation(maxfl.scaffold())
    assert (run(made, tmp_path / "run") / "summary.json").exists()
    assert made.describe()["algorithm"] == {"name": "scaffold"}


@pytest.mark.slow
def test_all_states_and_personal_models_resume_bit_for_bit(tmp_path):
    def make():
        return small.simulation(**small.everything(rounds=19))

    whole = results(run(make(), tmp_path / "whole"))
    with pytest.raises(KeyboardInterrupt):
        run(make(), tmp_path / "cut", progress=stop_after(2))
    run(make(), tmp_path / "cut", resume=True)
    assert results(tmp_path / "cut") == whole


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_devices(folder, whole):
    run(simulation(devices=jax.devices()[:1]), folder, resume=True)
    table = pq.read_table(folder / "history.parquet").to_pydict()
    assert len(table["round"]) == 2 * (TRAINING.rounds + 1) * 8
    assert results(folder).keys() == whole.keys()


def test_a_rule_of_the_same_name_that_demands_more_is_refused(tmp_path):
    def times(factor):
        def rule(federation, solo):  # noqa: ARG001
            return factor * solo.judging_loss

        return maxfl.custom(rule, steps=10)

    with pytest.raises(KeyboardInterrupt):
        run(simulation(requirement=times(1.0)), tmp_path / "run", progress=stop_after(1))
    with pytest.raises(maxfl.InputError, match="requirement demands other losses"):
        run(simulation(requirement=times(2.0)), tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    "how", ["truncated", "flipped bit", "missing", "index torn", "new format", "wrong count"]
)
def test_a_torn_checkpoint_is_refused_and_left_alone(folder, how):
    checkpoint = folder / "checkpoint"
    index, block = checkpoint / "checkpoint.json", checkpoint / "block-00003"
    content = bytearray(block.read_bytes())
    match how:
        case "truncated":
            block.write_bytes(content[: len(content) // 2])
        case "flipped bit":
            content[-1] ^= 1
            block.write_bytes(content)
        case "missing":
            block.unlink()
        case "index torn":
            index.write_text(index.read_text()[:-40])
        case "wrong count":
            index.write_text(index.read_text().replace('"blocks": ', '"blocks": 9'))
        case "new format":
            index.write_text(index.read_text().replace(f'"format": {FORMAT}', '"format": 99'))
    before = sorted((p.name, p.stat().st_size) for p in checkpoint.iterdir())
    with pytest.raises(maxfl.InputError, match="can't be resumed"):
        run(simulation(), folder, resume=True)
    assert sorted((p.name, p.stat().st_size) for p in checkpoint.iterdir()) == before


def test_files_that_the_index_does_not_name_do_not_count(folder, whole):
    (folder / "checkpoint" / "block-00031").write_bytes(b"left by a killed write")
    (folder / "checkpoint" / ".state-00009.partial").write_bytes(b"half")
    run(simulation(), folder, resume=True)
    assert results(folder) == whole


def test_a_whole_number_is_the_same_setting_as_its_float(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(simulation({"server_lr": 1}), folder, progress=stop_after(2))
    run(simulation({"server_lr": 1.0}), folder, resume=True)


def test_a_checkpoint_may_lie_behind_a_link_and_nothing_else_there_is_touched(tmp_path, whole):
    """The link is there before the run, and its target not yet; others' names are like ours."""
    scratch, folder = tmp_path / "scratch", tmp_path / "run"
    folder.mkdir()
    (folder / "checkpoint").symlink_to(scratch)
    with pytest.raises(KeyboardInterrupt):
        run(simulation(), folder, progress=stop_after(2))
    mine = ["thesis.tex", ".prepared", "block-00099", "state-00077", "client-states.bin"]
    for name in mine:
        (scratch / name).write_text("keep me")
    (scratch / "block-00098").mkdir()
    run(simulation(), folder, resume=True)
    assert results(folder) == whole
    assert sorted(path.name for path in scratch.iterdir()) == sorted([*mine, "block-00098"])
    assert all((scratch / name).read_text() == "keep me" for name in mine)
    assert (folder / "checkpoint").is_symlink()


def test_the_checkpoint_of_another_run_behind_the_same_link_is_not_touched(tmp_path, folder):
    """A finished run, resumed, cleans up; not what is somebody else's."""
    run(simulation({"rounds": 3}), tmp_path / "finished")
    (tmp_path / "finished/checkpoint").symlink_to(folder / "checkpoint")
    before = sorted(path.name for path in (folder / "checkpoint").iterdir())
    run(simulation({"rounds": 3}), tmp_path / "finished", resume=True)
    assert sorted(path.name for path in (folder / "checkpoint").iterdir()) == before


def test_files_of_others_in_a_checkpoint_stay(folder):
    (folder / "checkpoint/notes.txt").write_text("keep me")
    run(simulation(), folder, resume=True)
    assert [path.name for path in (folder / "checkpoint").iterdir()] == ["notes.txt"]


def test_the_index_does_not_grow(folder):
    index = folder / "checkpoint/checkpoint.json"
    before = index.stat().st_size
    with pytest.raises(KeyboardInterrupt):
        run(simulation(), folder, resume=True, progress=stop_after(15))
    assert index.stat().st_size - before <= 2, "a digit more"
