"""Federations larger than memory: the same model as from memory, with only the cohort's data."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import maxfl
from maxfl.core.federation import InputScaling
from maxfl.core.federation_files import read_clients
from maxfl.core.judging import Judging, with_judging
from maxfl.core.model import CompiledScaling
from maxfl.engine.streaming import cohort_reader
from maxfl.engine.streaming.client_state_file import ClientStateFile
from maxfl.engine.streaming.simulation import StreamingSimulation
from maxfl.engine.streaming.stream import stream
from maxfl.utils.errors import DiskFullError, InputError, OutOfMemoryError
from maxfl.utils.files import digest
from maxfl.utils.paths import MODEL as WEIGHTS
from maxfl.utils.paths import TABLES
from support.limits import largest_file, out_of_memory
from support.poison import assert_same_but_test, poison
from support.small import PAPER
from support.streamed import (
    HELD_OUT,
    MODEL,
    OPT_OUT,
    OPTIONS,
    TRAINING,
    in_memory,
    to_be_killed,
)

pytestmark = pytest.mark.processes

TESTS = Path(__file__).parents[2]


def assert_equal_params(ours, theirs, atol=0.0):
    leaves = (jax.tree.leaves(history.params) for history in (ours, theirs))
    for a, b in zip(*leaves, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


@pytest.fixture(scope="module")
def from_memory(on_disk):
    """SCAFFOLD, whose clients keep something; some decline, drop out or are Byzantine."""
    return maxfl.simulate(on_disk, MODEL, maxfl.scaffold(), TRAINING, **OPTIONS)


def test_the_same_model_as_from_memory(on_disk, from_memory):
    found = stream(on_disk, MODEL, maxfl.scaffold(), TRAINING, eval_clients=100, **OPTIONS)
    assert found.eval_clients.tolist() == list(range(8))
    assert_equal_params(found.history, from_memory)
    for name in ("client_id", "participated", "weight"):
        ours, theirs = getattr(found.cohorts, name), getattr(from_memory.cohorts, name)
        np.testing.assert_array_equal(ours, theirs)
    assert not found.cohorts.participated.all(), "some declined or dropped out"
    np.testing.assert_array_equal(found.history.rounds, from_memory.rounds)
    ours, theirs = found.history.evaluation, from_memory.evaluation
    np.testing.assert_allclose(ours.test_loss, theirs.test_loss, rtol=1e-6)
    np.testing.assert_array_equal(ours.willing, theirs.willing)
    np.testing.assert_array_equal(found.history.sampled(), from_memory.sampled())
    np.testing.assert_allclose(ours.judging_loss, theirs.judging_loss, rtol=1e-6)
    assert found.history.origin.federation.judging_sizes.tolist() == [4, 3, 3, 6, 4, 5, 10, 3]


def test_a_scaling_that_is_compiled_in_gives_the_same_stream(on_disk, monkeypatch):
    """As that of images on a GPU is."""
    compiled = []

    def compile_in(given, _):
        compiled.append(CompiledScaling(*given))
        return compiled[-1]

    scaling = InputScaling(np.float32(0.2), np.float32(0.8))
    scaled = on_disk._replace(input_scaling=scaling)
    plain = stream(scaled, MODEL, maxfl.scaffold(), TRAINING, **OPTIONS)
    monkeypatch.setattr(cohort_reader, "compiled_scaling", compile_in)
    found = stream(scaled, MODEL, maxfl.scaffold(), TRAINING, **OPTIONS)
    assert_equal_params(found.history, plain.history, 1e-6)
    assert {*compiled} == {CompiledScaling(*scaling)}


def test_some_clients_judge_for_all(on_disk, from_memory):
    found = stream(on_disk, MODEL, maxfl.scaffold(), TRAINING, eval_clients=2, **OPTIONS)
    assert len(found.eval_clients) == 4
    assert found.history.is_seen.tolist() == [True, True, False, False]
    expected = from_memory.evaluation.test_loss[..., found.eval_clients]
    np.testing.assert_allclose(found.history.evaluation.test_loss, expected, rtol=1e-6)


@pytest.fixture(scope="module")
def by_opt_out(on_disk):
    """MaxFL, whose weights depend on the losses, with too few that are willing at times."""
    return maxfl.simulate(on_disk, MODEL, maxfl.maxfl(), TRAINING, **OPT_OUT)


def test_if_all_may_be_candidates_those_take_part_who_would_in_memory(on_disk, by_opt_out):
    sampled = by_opt_out.cohorts.sampled
    found = stream(
        on_disk, MODEL, maxfl.maxfl(), TRAINING, max_candidates=6, eval_clients=100, **OPT_OUT
    )
    assert sampled.any(-1).all()
    assert not sampled.all(), "in some rounds too few are willing"
    np.testing.assert_array_equal(found.cohorts.sampled, sampled)
    for name in ("client_id", "participated"):
        ours, theirs = (getattr(run.cohorts, name)[sampled] for run in (found, by_opt_out))
        np.testing.assert_array_equal(ours, theirs)
    # A cohort's held-out samples lie in other rows than everybody's: another order of the sum.
    ours, theirs = (run.cohorts.weight[sampled] for run in (found, by_opt_out))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert_equal_params(found.history, by_opt_out, atol=1e-6)
    # Round t + 1 samples by the model after t rounds; all six were candidates where one is missing.
    counts, honest = found.history.counts, ~by_opt_out.is_byzantine[0, :6]
    short = [t for t in range(2, 6, 2) if not sampled[0, t].all()]
    assert short
    for t in short:
        willing = by_opt_out.evaluation.willing[0, by_opt_out.rounds == t, :6][0] & honest
        assert counts.responded[0, t] == honest.sum()
        assert counts.willing[0, t] == willing.sum()


def test_nothing_of_the_test_part_reaches_training(on_disk, by_opt_out):
    poisoned = on_disk._replace(test=poison(on_disk.test), known_digest=None)
    clean, other = (
        stream(data, MODEL, maxfl.maxfl(), TRAINING, max_candidates=6, **OPT_OUT)
        for data in (on_disk, poisoned)
    )
    assert_same_but_test(clean.history, other.history)
    assert_equal_params(other.history, clean.history)
    assert_equal_params(other.history, by_opt_out, atol=1e-6)


def test_judging_data_that_clients_bring_are_read(on_disk, by_opt_out, tmp_path):
    """On disk as three parts, what would be held out is judged by as if it were held out."""
    held = with_judging(on_disk, OPT_OUT["requirement"].judging)
    parts = (
        [read_clients(part, np.array([k]))[:2] for part in (held.train, held.judging, held.test)]
        for k in range(held.clients)
    )
    three = maxfl.open_federation(
        maxfl.write_federation(tmp_path / "three", parts, classes=3, unseen=2)
    )
    another = {**OPT_OUT, "requirement": OPT_OUT["requirement"]._replace(judging=Judging())}
    found = stream(three, MODEL, maxfl.maxfl(), TRAINING, max_candidates=6, **another).history
    assert_equal_params(found, by_opt_out, atol=1e-6)
    np.testing.assert_array_equal(found.thresholds.judging, by_opt_out.thresholds.judging)
    together = maxfl.simulate(three, MODEL, maxfl.maxfl(), TRAINING, **another)
    assert_equal_params(together, by_opt_out)


def test_there_are_no_more_candidates_than_may_be(on_disk):
    found = stream(on_disk, MODEL, maxfl.maxfl(), TRAINING, max_candidates=4, **OPT_OUT)
    counts = found.history.counts
    assert counts.responded.shape == (1, 6)
    assert counts.responded.max() == 4
    assert (counts.participated <= counts.willing).all()
    np.testing.assert_allclose(counts.willing_share, counts.willing / counts.responded)


def results(folder):
    return {name: digest((folder / name).read_bytes()) for name in (*TABLES, WEIGHTS)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory, place):
    """Digests of the results of a run that nobody stopped."""
    return results(maxfl.run(to_be_killed(place), tmp_path_factory.mktemp("whole") / "run"))


def test_killed_it_goes_on_bit_for_bit(whole, place, tmp_path):
    """SIGKILL while the rows of a cohort are being written."""
    code = (
        "import conftest, os, signal, sys, maxfl\n"
        "from support.streamed import to_be_killed\n"
        "from maxfl.engine.streaming.client_state_file import ClientStateFile\n"
        "calls, real = 0, ClientStateFile._write_row\n"
        "def dying(self, row, content):\n"
        "    global calls\n"
        "    calls += 1\n"
        "    if calls == int(sys.argv[3]):\n"
        "        real(self, row, content[: len(content) // 2])\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(self, row, content)\n"
        "ClientStateFile._write_row = dying\n"
        "maxfl.run(to_be_killed(sys.argv[1]), sys.argv[2], resume=True)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(TESTS)])}
    folder = tmp_path / "run"
    folder.mkdir()
    arguments = [sys.executable, "-c", code, str(place), str(folder), "8"]
    done = subprocess.run(arguments, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    blocks = json.loads((folder / "checkpoint/checkpoint.json").read_text())["blocks"]
    assert 0 < blocks < 10
    maxfl.run(to_be_killed(place), folder, resume=True)
    assert results(folder) == whole
    assert not (folder / "checkpoint").exists()


def test_cut_off_after_every_write_it_goes_on_bit_for_bit(whole, place, tmp_path, monkeypatch):
    """Stopped in every write of a file and of a row, one after another."""
    folder, real, real_row = tmp_path / "run", Path.replace, ClientStateFile._write_row
    calls = 0

    def fatal_now():
        nonlocal calls
        calls += 1
        return calls == fatal

    def replace(self, target):
        if fatal_now():
            raise KeyboardInterrupt
        return real(self, target)

    def write_row(self, row, content):
        if fatal_now():
            real_row(self, row, content[:3])
            raise KeyboardInterrupt
        real_row(self, row, content)

    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr(ClientStateFile, "_write_row", write_row)
    for fatal in range(1, 14):  # noqa: B007 (read in fatal_now)
        calls = 0
        with pytest.raises(KeyboardInterrupt):
            maxfl.run(to_be_killed(place), folder, resume=True)
    monkeypatch.undo()
    maxfl.run(to_be_killed(place), folder, resume=True)
    assert results(folder) == whole


def test_another_stream_is_refused_by_name(place, tmp_path):
    def stop(stage, *_):
        if stage == "rounds":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        maxfl.run(to_be_killed(place), tmp_path / "run", progress=stop)
    with pytest.raises(InputError, match=r"streaming.eval_clients \(1000 there, 3 here\)"):
        maxfl.run(to_be_killed(place, eval_clients=3), tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"participation": maxfl.opt_out()}, "say how many"),
        (
            {"participation": maxfl.opt_out(), "max_candidates": 2},
            "max_candidates = 2 .*: expected at least the cohort, 3",
        ),
        ({"max_candidates": 5}, "max_candidates is for opt-out"),
        ({"seed": [0, 1]}, "one configuration"),
        ({"finetune_steps": 2}, "not measured on disk"),
        ({"requirement": maxfl.custom(lambda *_: 1.0)}, "all clients at once"),
        ({"eval_clients": 0}, "eval_clients = 0"),
    ],
)
def test_what_a_stream_can_not_do_is_refused(on_disk, options, words):
    with pytest.raises(InputError, match=words):
        stream(on_disk, MODEL, maxfl.fedavg(), TRAINING, **options)


def test_a_full_disk_ends_a_stream(tmp_path):
    made = StreamingSimulation(*in_memory(), **OPTIONS)
    row = 4 * sum(leaf.size for leaf in jax.tree.leaves(made.start().server.params))
    words = "client states, which takes up to .* give stream"
    with largest_file(2 * row), pytest.raises(DiskFullError, match=words):
        stream(*in_memory(), folder=tmp_path, **OPTIONS)
    assert not list(tmp_path.iterdir())


def test_too_little_memory_is_explained():
    with pytest.raises(OutOfMemoryError, match=r"lower training.cohort.*eval_clients"):
        stream(*in_memory(), progress=out_of_memory, **OPTIONS)


@pytest.mark.parametrize(
    ("requirement", "rule"),
    [
        (maxfl.metric("accuracy", 0.4, steps=5, **PAPER), "opt-out"),
        (
            maxfl.per_client(
                dict.fromkeys(range(0, 8, 2), 0.3), metric="accuracy",
                otherwise=maxfl.solo(0.9, steps=5, **HELD_OUT),
            ),
            "decline",
        ),
    ],
    ids=["one value for all", "some of their own"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::maxfl.TrainingWarning")
def test_a_metric_decides_as_it_does_in_memory(on_disk, requirement, rule):
    federation, model, _, training = in_memory()
    method, seed = maxfl.maxfl(temperature=0.1), 3
    participation = maxfl.opt_out(2) if rule == "opt-out" else maxfl.decline(2)
    candidates = {"max_candidates": 6} if rule == "opt-out" else {}
    options = {"requirement": requirement, "participation": participation, "seed": seed}
    streamed = maxfl.stream(on_disk, model, method, training, **options, **candidates).history
    history = maxfl.simulate(federation, model, method, training, **options)
    np.testing.assert_allclose(streamed.thresholds.judging, history.thresholds.judging, atol=1e-6)
    np.testing.assert_allclose(
        streamed.evaluation.judging_metric, history.evaluation.judging_metric, atol=1e-6
    )
    assert_equal_params(streamed, history)
