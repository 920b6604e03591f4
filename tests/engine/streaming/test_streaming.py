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
from maxfl.core.federation_files import open_federation, read_clients, write_federation
from maxfl.core.participation import Rule
from maxfl.engine.streaming.client_state_file import NO_ROWS, ClientStore
from maxfl.engine.streaming.cohort_reader import Window, reads_requirement
from maxfl.engine.streaming.simulation import StreamingSimulation, stream
from maxfl.utils.errors import InputError
from maxfl.utils.files import digest
from maxfl.utils.paths import MODEL as WEIGHTS
from maxfl.utils.paths import TABLES
from support.federations import make_clients
from support.streamed import MODEL, OPT_OUT, OPTIONS, SIZES, TRAINING, to_be_killed

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    clients = list(zip(make_clients(SIZES), make_clients(SIZES[::-1]), strict=True))
    folder = tmp_path_factory.mktemp("federation") / "own"
    write_federation(folder, iter(clients), classes=3, unseen=2)
    return clients, open_federation(folder)


def test_what_is_written_is_what_is_read(on_disk):
    clients, found = on_disk
    whole = maxfl.Federation.from_clients(*zip(*clients, strict=True), unseen=2, classes=3)
    for ours, theirs in zip(jax.tree.leaves(found[:5]), jax.tree.leaves(whole[:5]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert isinstance(found.train.x, np.memmap)
    some = read_clients(found.train, np.array([5, 0]), room=32)
    np.testing.assert_array_equal(some.x[:10], clients[5][0][0])
    np.testing.assert_array_equal(some.y[10:19], clients[0][0][1])
    assert some.offsets.tolist() == [0, 10, 19]
    assert len(some.y) == 32


@pytest.fixture(scope="module")
def from_memory(on_disk):
    """SCAFFOLD, whose clients keep something, with some that decline, drop out and lie."""
    return maxfl.simulate(on_disk[1], MODEL, maxfl.scaffold(), TRAINING, **OPTIONS)


def test_the_same_model_as_from_memory(on_disk, from_memory):
    found = stream(on_disk[1], MODEL, maxfl.scaffold(), TRAINING, panel=100, **OPTIONS)
    assert found.panel.tolist() == list(range(8))
    leaves = [jax.tree.leaves(own.params) for own in (found.history, from_memory)]
    for ours, theirs in zip(*leaves, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for name in ("client", "took_part", "weight"):
        np.testing.assert_array_equal(getattr(found.asked, name), getattr(from_memory.asked, name))
    assert not found.asked.took_part.all(), "some declined or dropped out"
    np.testing.assert_array_equal(found.history.rounds, from_memory.rounds)
    seen, expected = found.history.evaluation, from_memory.evaluation
    np.testing.assert_allclose(seen.test_loss, expected.test_loss, rtol=1e-6)
    np.testing.assert_array_equal(seen.willing, expected.willing)
    np.testing.assert_array_equal(found.history.sampled(), from_memory.sampled())


def test_a_panel_speaks_for_all(on_disk, from_memory):
    found = stream(on_disk[1], MODEL, maxfl.scaffold(), TRAINING, panel=2, **OPTIONS)
    assert len(found.panel) == 4
    assert found.history.is_seen.tolist() == [True, True, False, False]
    expected = from_memory.evaluation.test_loss[..., found.panel]
    np.testing.assert_allclose(found.history.evaluation.test_loss, expected, rtol=1e-6)


@pytest.fixture(scope="module")
def by_opt_out(on_disk):
    """MaxFL, whose weights depend on the losses, with too few that are willing at times."""
    return maxfl.simulate(on_disk[1], MODEL, maxfl.maxfl(), TRAINING, **OPT_OUT)


def test_if_all_may_be_asked_those_take_part_who_would_in_memory(on_disk, by_opt_out):
    expected, sampled = by_opt_out, by_opt_out.asked.sampled
    found = stream(on_disk[1], MODEL, maxfl.maxfl(), TRAINING, ask=6, panel=100, **OPT_OUT)
    assert sampled.any(-1).all()
    assert not sampled.all(), "in some rounds too few are willing"
    np.testing.assert_array_equal(found.asked.sampled, sampled)
    for name in ("client", "took_part", "weight"):
        ours, theirs = (getattr(own.asked, name)[sampled] for own in (found, expected))
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(
        jax.tree.leaves(found.history.params), jax.tree.leaves(expected.params), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    # Round t + 1 asks by the model after t rounds; all six were asked wherever one is missing.
    survey, honest = found.history.survey, ~expected.lies[0, :6]
    short = [t for t in range(2, 6, 2) if not sampled[0, t].all()]
    assert short
    for t in short:
        willing = expected.evaluation.willing[0, expected.rounds == t, :6][0] & honest
        assert survey.asked[0, t] == honest.sum()
        assert survey.willing[0, t] == willing.sum()


def test_no_more_are_asked_than_may_be(on_disk):
    found = stream(on_disk[1], MODEL, maxfl.maxfl(), TRAINING, ask=4, **OPT_OUT)
    survey = found.history.survey
    assert survey.asked.shape == (1, 6)
    assert survey.asked.max() == 4
    assert (survey.took_part <= survey.willing).all()
    np.testing.assert_allclose(survey.share, survey.willing / survey.asked)


def results(folder):
    return {name: digest((folder / name).read_bytes()) for name in (*TABLES, WEIGHTS)}


@pytest.fixture(scope="module")
def place(tmp_path_factory, on_disk):
    return write_federation(tmp_path_factory.mktemp("killed") / "own", on_disk[0], classes=3,
                            unseen=2)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory, place):
    """Digests of the results of a run that nobody stopped."""
    return results(maxfl.run(to_be_killed(place), tmp_path_factory.mktemp("whole") / "run"))


def test_killed_it_goes_on_bit_for_bit(whole, place, tmp_path):
    """SIGKILL while the rows of a cohort are being written."""
    code = (
        "import conftest, os, signal, sys, maxfl\n"
        "from support.streamed import to_be_killed\n"
        "from maxfl.engine.streaming.client_state_file import ClientStore\n"
        "calls, real = 0, ClientStore._write_row\n"
        "def dying(self, row, content):\n"
        "    global calls\n"
        "    calls += 1\n"
        "    if calls == int(sys.argv[3]):\n"
        "        real(self, row, content[: len(content) // 2])\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(self, row, content)\n"
        "ClientStore._write_row = dying\n"
        "maxfl.run(to_be_killed(sys.argv[1]), sys.argv[2], resume=True)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parents[2])])}
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
    folder, real, real_row = tmp_path / "run", Path.replace, ClientStore._write_row
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
    monkeypatch.setattr(ClientStore, "_write_row", write_row)
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
    with pytest.raises(InputError, match=r"stream.panel \(1000 there, 3 here\)"):
        maxfl.run(to_be_killed(place, panel=3), tmp_path / "run", resume=True)


def test_which_methods_look_at_requirements():
    params = MODEL.init(jax.random.key(0))
    for method, expected in (
        (maxfl.fedavg(), False), (maxfl.maxfl(), True), (maxfl.scaffold(), False),
        (maxfl.qffl(), False), (maxfl.mwfed(), True), (maxfl.maxfl(temperature=1e-3), True),
    ):  # fmt: skip
        hyper = jax.tree.map(lambda a: np.asarray(a, np.float32)[None], method.hyper)
        found = reads_requirement(method._replace(hyper=None), hyper, params, Rule.EVERYONE)
        assert found is expected, method.name
        assert reads_requirement(method, hyper, params, Rule.DECLINE)


def kept(*numbers):
    return {"a": np.repeat(np.float32(numbers)[:, None], 3, 1), "b": np.int32(numbers)}


def test_clients_keep_what_they_kept(tmp_path):
    like = {"a": np.zeros(3, np.float32), "b": np.zeros((), np.int32)}
    fresh = {"a": np.ones(3, np.float32), "b": np.int32(7)}
    store = ClientStore(tmp_path / "rows", like, 10)
    store.restore(NO_ROWS)
    assert store.read(np.array([4, 9]), fresh)["b"].tolist() == [7, 7]
    store.write(np.array([9, 4]), kept(1, 2))
    store.write(np.array([4, 0]), kept(3, 4))
    found = store.read(np.array([0, 4, 9, 1]), fresh)
    assert found["b"].tolist() == [4, 3, 1, 7]
    assert found["a"].tolist() == [[4] * 3, [3] * 3, [1] * 3, [1] * 3]
    store.close()


def test_rows_of_a_checkpoint_are_not_overwritten(tmp_path):
    like, everyone = kept(0), np.arange(3)
    like = {"a": like["a"][0], "b": like["b"][0]}
    store = ClientStore(tmp_path / "rows", like, 3)
    store.restore(NO_ROWS)
    store.write(everyone, kept(1, 2, 3))
    rows = store.save()
    store.saved()
    store.write(everyone, kept(4, 5, 6))  # and then the process is killed
    store.close()
    again = ClientStore(tmp_path / "rows", like, 3)
    again.restore(rows)
    assert again.read(everyone, like)["b"].tolist() == [1, 2, 3]
    for n in range(10):  # rows that no checkpoint names are used again
        again.write(everyone, kept(n, n, n))
        rows = again.save()
        again.saved()
    assert again.rows == 6
    assert again.read(everyone, like)["b"].tolist() == [9, 9, 9]
    path = tmp_path / "rows"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(InputError, match="damaged row, of client"):
        again.read(everyone, like)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="0 bytes, but 48 belong there"):
        again.restore(rows)
    again.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"participation": maxfl.opt_out()}, "say how many to ask at most"),
        ({"participation": maxfl.opt_out(), "ask": 2}, "ask = 2 .*: want at least the cohort, 3"),
        ({"ask": 5}, "ask is for opt-out"),
        ({"seed": [0, 1]}, "one configuration"),
        ({"tuning": 2}, "not measured in a stream"),
        ({"requirement": maxfl.custom(lambda *_: 1.0)}, "wants all clients at once"),
        ({"panel": 0}, "panel = 0"),
    ],
)
def test_what_a_stream_can_not_do_is_told(on_disk, options, words):
    with pytest.raises(InputError, match=words):
        stream(on_disk[1], MODEL, maxfl.fedavg(), TRAINING, **options)


def test_broken_files_are_told(tmp_path, on_disk):
    clients, _ = on_disk
    with pytest.raises(InputError, match="holds no federation"):
        open_federation(tmp_path)
    folder = write_federation(tmp_path / "own", clients, classes=3)
    with pytest.raises(InputError, match="is not an empty folder"):
        write_federation(folder, clients, classes=3)
    path = folder / "train-x.bin"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(InputError, match="damaged or was not written to its end"):
        open_federation(folder)
    with pytest.raises(InputError, match="train data of client 1: label 2, but classes = 2"):
        write_federation(tmp_path / "few", [_binary(clients[0]), clients[6]], classes=2)
    assert json.loads((folder / "federation.json").read_text())["clients"] == 8


@pytest.mark.parametrize(
    ("file", "at", "words"),
    [
        ("test-y.bin", 8, "test-y.bin does not hold labels from 0 to 2"),
        ("train-offsets.bin", 4, "train-offsets.bin does not hold which samples are whose"),
        ("train-offsets.bin", 0, "train-offsets.bin does not hold which samples are whose"),
        ("train-x.bin", 0, "train-x.bin holds numbers that are NaN or infinite"),
    ],
)
def test_files_of_the_right_size_are_looked_at(tmp_path, on_disk, file, at, words):
    folder = write_federation(tmp_path / "own", on_disk[0], classes=3)
    content = bytearray((folder / file).read_bytes())
    content[at : at + 4] = b"\xff" * 4
    (folder / file).write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_clients(open_federation(folder).train, np.array([0]))


def test_of_two_rounds_that_find_a_requirement_the_earlier_counts(on_disk):
    windows = StreamingSimulation(on_disk[1], MODEL, maxfl.maxfl(), TRAINING)._windows
    windows.remember([], [])
    clients = np.array([1, 4])
    first = windows.learn(Window(clients, None, np.float32([[0.5, 0.6]])))
    ahead = windows.learn(Window(np.array([4, 2]), None, np.float32([[0.7, 0.8]])))
    np.testing.assert_array_equal(first.requirement, np.float32([[0.5, 0.6]]))
    np.testing.assert_array_equal(ahead.requirement, np.float32([[0.6, 0.8]]))
    np.testing.assert_array_equal(windows.remembered()[0], [1, 2, 4])


def _binary(client):
    return [(x, np.minimum(y, 1)) for x, y in client]
