"""A run killed at any moment goes on from its last block and ends with the same bits."""

import fcntl
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
from maxfl.runs.run import run
from support.resumable import RESULTS, TRAINING, digest, results, simulation


def stop_after(blocks):
    """A progress callback that ends the run after some blocks, as Ctrl-C would."""

    def report(stage, done, total):  # noqa: ARG001
        if stage == "rounds" and done >= blocks:
            raise KeyboardInterrupt

    return report


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Digests of the uninterrupted run's results."""
    return results(run(simulation(), tmp_path_factory.mktemp("whole") / "run"))


@pytest.fixture
def cut_off(tmp_path):
    """A folder with a run that was cut off in the middle."""
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(simulation(), folder, progress=stop_after(6))
    return folder


def test_resumed_after_sigkill(whole, tmp_path):
    """Kill the process at three moments, the second and third while it resumes."""
    folder = tmp_path / "run"
    code = (
        "import conftest, maxfl, sys\n"
        "from support.resumable import simulation\n"
        "maxfl.run(simulation(), sys.argv[1], resume=len(sys.argv) > 2,\n"
        "    progress=lambda *a: print(*a, flush=True))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    seen = []
    for kill_at in (4, 13, 27):
        arguments = [sys.executable, "-c", code, str(folder), *(["resume"] if seen else [])]
        with subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if line.startswith("rounds"):
                    seen.append(int(line.split()[1]))
                    if seen[-1] >= kill_at:
                        os.kill(process.pid, signal.SIGKILL)
                        break
            process.wait(timeout=60)
            assert process.returncode == -signal.SIGKILL
        assert not (folder / "summary.json").exists()
        done = json.loads((folder / "checkpoint/checkpoint.json").read_text())["blocks"]
        assert done >= kill_at
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


def test_a_method_without_numbers_runs_in_a_folder(tmp_path):
    made = simulation(algorithm=maxfl.scaffold(), training={"rounds": 2})
    assert (run(made, tmp_path / "run") / "summary.json").exists()
    assert made.describe()["algorithm"] == {"name": "scaffold"}


def test_memory_optimiser_and_personal_models_resume_bit_for_bit(tmp_path):
    def make():
        return simulation(
            algorithm=maxfl.ditto([0.1, 0.5]), training={"rounds": 8}, tuning=2,
            optimiser=maxfl.server_optimizers.adam(), participation=maxfl.everyone(0.2),
            adversary=maxfl.attacks.byzantine(0.34, noise=0.1),
        )  # fmt: skip

    whole = results(run(make(), tmp_path / "whole"))
    with pytest.raises(KeyboardInterrupt):
        run(make(), tmp_path / "cut", progress=stop_after(3))
    run(make(), tmp_path / "cut", resume=True)
    assert results(tmp_path / "cut") == whole


def test_a_run_goes_on_with_another_number_of_devices(cut_off, whole):
    one = jax.devices()[:1]
    run(simulation(devices=one), cut_off, resume=True)
    ours = pq.read_table(cut_off / "history.parquet").to_pydict()
    assert len(ours["round"]) == 2 * 41 * 4
    assert results(cut_off).keys() == whole.keys()


def test_resuming_a_finished_run_changes_nothing(whole, tmp_path):
    folder = run(simulation(), tmp_path / "run")
    before = (folder / "summary.json").stat().st_mtime_ns
    run(simulation(), folder, resume=True)
    assert (folder / "summary.json").stat().st_mtime_ns == before
    assert results(folder) == whole


def test_a_folder_with_a_run_is_not_overwritten(cut_off):
    with pytest.raises(maxfl.InputError, match="already holds an unfinished run"):
        run(simulation(), cut_off)


def test_another_experiment_is_refused_by_name(cut_off):
    for other, words in (
        (simulation(seed=7), r"seed \(0 there, 7 here\)"),
        (simulation(training={"local_lr": 0.1}), r"training.local_lr \(0.2 there, 0.1 here\)"),
        (simulation(dropout=0.4), "differs in model"),
        (simulation(participation=maxfl.everyone()), r"participation.rule \(opt-out there"),
    ):
        with pytest.raises(maxfl.InputError, match=words):
            run(other, cut_off, resume=True)


def test_a_rule_of_the_same_name_that_demands_more_is_refused(tmp_path):
    def times(factor):
        def rule(federation, solo):  # noqa: ARG001
            return factor * solo.train_loss

        return maxfl.custom(rule, steps=10)

    with pytest.raises(KeyboardInterrupt):
        run(simulation(requirement=times(1.0)), tmp_path / "run", progress=stop_after(1))
    with pytest.raises(maxfl.InputError, match="requirement demands other losses"):
        run(simulation(requirement=times(2.0)), tmp_path / "run", resume=True)


def test_a_finished_run_with_missing_files_is_refused(tmp_path):
    folder = run(simulation(), tmp_path / "run")
    (folder / "rounds.parquet").unlink()
    with pytest.raises(maxfl.InputError, match=r"rounds.parquet is gone"):
        run(simulation(), folder, resume=True)


def test_two_processes_do_not_share_a_folder(cut_off):
    held = os.open(cut_off, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with pytest.raises(maxfl.InputError, match="another process is at work"):
            run(simulation(), cut_off, resume=True)
    finally:
        os.close(held)


def test_a_folder_is_locked_while_its_run_goes_on(cut_off):
    def try_to_enter(*_):
        with pytest.raises(maxfl.InputError, match="another process is at work"):
            run(simulation(), cut_off, resume=True)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(simulation(), cut_off, resume=True, progress=try_to_enter)


def test_labels_for_other_configurations_are_refused(tmp_path):
    for wrong in ({"numbers": [0, 1, 2]}, {"values": []}):
        with pytest.raises(maxfl.InputError, match="entries for 2 configurations"):
            run(simulation(), tmp_path / "run", **wrong)
    assert not (tmp_path / "run").exists()


def test_a_foreign_folder_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(maxfl.InputError, match="not empty and holds no run"):
        run(simulation(), tmp_path, resume=True)
    assert (tmp_path / "thesis.tex").read_text() == "mine"


@pytest.mark.parametrize(
    "how", ["truncated", "flipped bit", "missing", "index torn", "new format", "wrong count"]
)
def test_a_torn_checkpoint_is_refused_and_left_alone(cut_off, how):
    checkpoint = cut_off / "checkpoint"
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
            index.write_text(index.read_text().replace('"format": 2', '"format": 99'))
    before = sorted((p.name, p.stat().st_size) for p in checkpoint.iterdir())
    with pytest.raises(maxfl.InputError, match="can't be resumed"):
        run(simulation(), cut_off, resume=True)
    assert sorted((p.name, p.stat().st_size) for p in checkpoint.iterdir()) == before


def test_files_that_the_index_does_not_name_do_not_count(cut_off, whole):
    (cut_off / "checkpoint" / "block-00031").write_bytes(b"left by a killed write")
    (cut_off / "checkpoint" / ".state-00009.partial").write_bytes(b"half")
    run(simulation(), cut_off, resume=True)
    assert results(cut_off) == whole
