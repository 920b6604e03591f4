"""Several processes on loopback: the same results as one, and clear ends when one is lost."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import jax
import numpy as np
import pytest

from maxfl.utils.files import digest
from maxfl.utils.tensors import to_named
from support import process_worker

pytestmark = pytest.mark.processes

ROUNDING = 1e-5
"""Largest difference where clients' sums are split over other numbers of devices; sums of float32
numbers near 1 over a few hundred steps. Draws and clients are always equal."""
CACHE = str(Path(__file__).parents[2] / ".cache/jax")
SETTINGS = """
seed = 0
[data]
source = "fashion-mnist-12k"
partition = "dirichlet"
alpha = 0.5
clients = 6
unseen = 2
samples = 20
[model]
hidden = [4]
[training]
rounds = {rounds}
cohort = 3
local_steps = 2
batch_size = 4
local_lr = 0.05
evaluate_every = 5
checkpoint_every = 5
[requirement]
steps = 3
"""


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@contextmanager
def started(arguments, *, devices=1, **variables):
    """A Python process, ended by its id if it is still there."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        ),
        "JAX_NUM_CPU_DEVICES": str(devices),
        "JAX_COMPILATION_CACHE_DIR": CACHE,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        **variables,
    }
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.communicate()


def command(process, *arguments, port, processes=2, timeout=60):
    """``maxfl``, as one of several."""
    return [
        "-c", "from maxfl.cli import main; main()", *arguments, "--timeout", timeout,
        "--coordinator", f"127.0.0.1:{port}", "--processes", processes, "--process", process,
    ]  # fmt: skip


def all_of(commands, *, devices=1, limit=300, variables=()):
    """Run processes side by side; (status, stdout, stderr) of each."""
    with ExitStack() as stack:
        environments = list(variables) or [{}] * len(commands)
        running = [
            stack.enter_context(started(arguments, devices=devices, **more))
            for arguments, more in zip(commands, environments, strict=True)
        ]
        printed = [process.communicate(timeout=limit) for process in running]
        return [(p.returncode, *texts) for p, texts in zip(running, printed, strict=True)]


def worked(folder, cases, *, processes=2, devices=1):
    """Histories of some cases as each process has them, as named arrays."""
    port = free_port()
    script = Path(process_worker.__file__)
    commands = [[script, port, processes, p, folder, *cases] for p in range(processes)]
    for status, out, err in all_of(commands, devices=devices):
        assert status == 0, err
        assert f"{processes * devices} devices" in out
    return [[dict(np.load(folder / f"{case}-{p}.npz")) for p in range(processes)] for case in cases]


def assert_equal(one, other, tolerance=0.0):
    assert one.keys() == other.keys()
    for name, array in one.items():
        if tolerance and array.dtype.kind == "f":
            np.testing.assert_allclose(array, other[name], tolerance, tolerance, err_msg=name)
        else:
            np.testing.assert_array_equal(array, other[name], name)


def test_two_processes_give_what_one_gives(tmp_path):
    one, sweep, memory = worked(tmp_path, ["one", "sweep", "memory"])
    for ours in (one, sweep, memory):
        assert_equal(*ours)
    both, first = jax.devices(), jax.devices()[:1]
    # The sum of two devices' sums has one order.
    assert_equal(one[0], to_named(process_worker.one(devices=both)))
    assert_equal(memory[0], to_named(process_worker.memory(devices=both)))
    assert_equal(one[0], to_named(process_worker.one(devices=first)), ROUNDING)
    # Configurations never meet.
    assert_equal(sweep[0], to_named(process_worker.sweep(devices=first)))


def test_clients_stay_in_a_process_where_configurations_fill_all(tmp_path):
    """Two processes of two devices: each has a configuration, and sums as one process would."""
    (pair,) = worked(tmp_path, ["pair"], devices=2)
    assert_equal(*pair)
    (alone,) = worked(tmp_path, ["pair"], processes=1, devices=4)
    assert_equal(pair[0], alone[0])
    assert_equal(pair[0], to_named(process_worker.pair(devices=jax.devices()[:1])), ROUNDING)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SETTINGS.format(rounds=40))
    return path


def results(folder):
    names = ("history.parquet", "rounds.parquet", "clients.parquet", "model.safetensors")
    return {name: digest((folder / name).read_bytes()) for name in names}


def test_the_command_in_two_processes(tmp_path, config):
    """Process 0 alone writes and prints; the model is that of one process with two devices."""
    port = free_port()
    ends = all_of(
        [command(p, "run", config, "--out", tmp_path / f"run-{p}", port=port) for p in (0, 1)]
    )
    assert [status for status, _, _ in ends] == [0, 0], ends
    assert "GM-Appeal" in ends[0][1]
    assert "Gloo" not in ends[0][1]
    assert ends[1][1:] == ("", "")
    assert not (tmp_path / "run-1").exists()
    summary = json.loads((tmp_path / "run-0/summary.json").read_text())
    assert "2 x cpu" in summary["device"]
    assert "2 processes" in summary["device"]
    run = ["-c", "from maxfl.cli import main; main()", "run", config, "--out", tmp_path / "alone"]
    ((status, _, err),) = all_of([run], devices=2)
    assert status == 0, err
    assert results(tmp_path / "run-0") == results(tmp_path / "alone")


def test_a_sweep_that_a_scheduler_started(tmp_path, config):
    """With --distributed alone, JAX finds the others by Slurm's variables."""
    sweep = [
        "-c", "from maxfl.cli import main; main()", "sweep", config, "--over", "seed=[0,1]",
        "--over", "data.seed=[5]",
    ]  # fmt: skip
    # By the number of the job JAX chooses the port: 61440 and what it leaves when divided by 4096.
    slurm = {
        "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_NODELIST": "127.0.0.1",
        "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_NUM_NODES": "1",
        "SLURM_LOCALID": "0",
    }  # fmt: skip
    ends = all_of(
        [[*sweep, "--out", tmp_path / f"sweep-{p}", "--distributed"] for p in (0, 1)],
        variables=[{**slurm, "SLURM_PROCID": str(p)} for p in (0, 1)],
    )
    assert [status for status, _, _ in ends] == [0, 0], ends
    assert ends[1][1] == ""
    assert not (tmp_path / "sweep-1").exists()
    ((status, _, err),) = all_of([[*sweep, "--out", tmp_path / "alone"]])
    assert status == 0, err
    for name in ("history.parquet", "rounds.parquet", "groups/0000/model.safetensors"):
        ours, theirs = ((tmp_path / run / name).read_bytes() for run in ("sweep-0", "alone"))
        assert ours == theirs, name


def wait_for(path, process, limit=120):
    end = time.monotonic() + limit
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, f"no {path}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A run whose end is far from its third block; what one process of two devices makes of it."""
    place = tmp_path_factory.mktemp("long")
    config, folder = place / "long.toml", place / "alone"
    config.write_text(SETTINGS.format(rounds=400))
    run = ["-c", "from maxfl.cli import main; main()", "run", config, "--out", folder]
    ((status, _, err),) = all_of([run], devices=2)
    assert status == 0, err
    return config, results(folder)


@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_process_ends_the_other_and_the_run_goes_on(tmp_path, long, killed):
    config, whole = long
    folder, port = tmp_path / "run", free_port()
    arguments = ["run", config, "--out", folder]
    with (
        started(command(0, *arguments, port=port)) as zero,
        started(command(1, *arguments, port=port)) as one,
    ):
        both = [zero, one]
        wait_for(folder / "checkpoint/block-00004", zero)  # so that the index has three
        os.kill(both[killed].pid, signal.SIGKILL)
        began = time.monotonic()
        _, err = both[1 - killed].communicate(timeout=30)
        assert time.monotonic() - began < 10
        assert both[1 - killed].returncode not in (0, None)
        # JAX may be first to say so where process 0, its coordinator, is gone.
        assert "another of the 2 processes is gone" in err or (
            killed == 0 and "another task died" in err
        )
    done = json.loads((folder / "checkpoint/checkpoint.json").read_text())["blocks"]
    assert done >= 3
    assert not (folder / "summary.json").exists()
    port = free_port()
    ends = all_of([command(p, *arguments, "--resume", port=port) for p in (0, 1)])
    assert [status for status, _, _ in ends] == [0, 0], ends
    assert "resuming after round" in ends[0][2]
    assert results(folder) == whole


@pytest.mark.parametrize("killed", [0, 1])
def test_a_process_killed_before_the_first_round_ends_the_other(tmp_path, long, killed):
    folder, port = tmp_path / "run", free_port()
    with (
        started(command(0, "run", long[0], "--out", folder, port=port)) as zero,
        started(command(1, "run", long[0], port=port)) as one,
    ):
        both = [zero, one]
        wait_for(folder / "experiment.json", zero)
        os.kill(both[killed].pid, signal.SIGKILL)
        began = time.monotonic()
        _, err = both[1 - killed].communicate(timeout=30)
        assert time.monotonic() - began < 10
        assert both[1 - killed].returncode not in (0, None)
        assert "another of the 2 processes is gone" in err or (
            killed == 0 and "another task died" in err
        )


def test_a_silent_process_ends_the_other(tmp_path, long):
    """Stopped, not killed: no connection is closed, so only its missing signs tell."""
    config, _ = long
    folder, port = tmp_path / "run", free_port()
    arguments = ["run", config, "--out", folder]
    with (
        started(command(0, *arguments, port=port, timeout=5)) as zero,
        started(command(1, *arguments, port=port, timeout=5)) as one,
    ):
        wait_for(folder / "checkpoint/block-00003", zero)
        os.kill(one.pid, signal.SIGSTOP)
        began = time.monotonic()
        _, err = zero.communicate(timeout=60)
        assert time.monotonic() - began < 30
    assert zero.returncode not in (0, None)
    assert "another task died" in err or "is gone" in err


def refused(tmp_path, *commands):
    """What each process says to input that is wrong."""
    ends = all_of(commands)
    assert [status for status, _, _ in ends] == [2] * len(commands), ends
    assert not list(tmp_path.glob("new*")), "nothing is begun"
    return [" ".join(err.split()) for _, _, err in ends]


def test_processes_that_run_something_else_are_refused_by_name(tmp_path, config):
    port, out = free_port(), ["--out", tmp_path / "new"]
    messages = refused(
        tmp_path,
        command(0, "run", config, *out, port=port),
        command(1, "run", config, *out, "--set", "training.local_lr=0.1", port=port),
    )
    for words in messages:
        assert "process 1 runs another experiment than process 0" in words
        assert "config.training.local_lr (0.05 in process 0, 0.1 in process 1)" in words


def test_a_mistake_in_one_process_is_explained_in_all(tmp_path, config):
    port, out = free_port(), ["--out", tmp_path / "new"]
    messages = refused(
        tmp_path,
        command(0, "run", config, *out, port=port),
        command(1, "run", tmp_path / "none.toml", *out, port=port),
    )
    for words in messages:
        assert "process 1: " in words
        assert "none.toml" in words
    mine = tmp_path / "thesis"
    mine.mkdir()
    (mine / "thesis.tex").write_text("mine")
    port = free_port()
    messages = refused(
        tmp_path, *(command(p, "run", config, "--out", mine, port=port) for p in (0, 1))
    )
    assert all("not empty and holds no run" in words for words in messages)
    assert [path.name for path in mine.iterdir()] == ["thesis.tex"]


def test_processes_that_do_not_meet(tmp_path, config):
    port, out = free_port(), ["--out", tmp_path / "new"]
    (words,) = refused(tmp_path, command(1, "run", config, *out, port=port, timeout=1))
    assert f"process 0 can't be reached at 127.0.0.1:{port}" in words
    (words,) = refused(tmp_path, command(0, "run", config, *out, port=port, timeout=1))
    assert "process 1 of 2 has not come in 1 s" in words
    (words,) = refused(tmp_path, command(2, "run", config, *out, port=port))
    assert "process = 2: 2 processes have the numbers 0 to 1" in words
    (words,) = refused(
        tmp_path, ["-c", "from maxfl.cli import main; main()", "run", config, "--distributed"]
    )
    assert "give coordinator, processes and process" in words
