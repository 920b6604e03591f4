"""Federations larger than memory: the same model as from memory, with only the cohort's data."""

import json

import jax
import numpy as np
import pytest

import maxfl
from conftest import make_clients
from maxfl.client_store import ClientStore
from maxfl.disk import open_federation, read_clients, write_federation
from maxfl.errors import InputError
from maxfl.participation import Rule
from maxfl.stream import reads_requirement, stream

MODEL = maxfl.mlp(4, (5,), 3)
TRAINING = maxfl.Training(rounds=6, cohort=3, local_steps=3, batch_size=4, evaluate_every=2)


@pytest.fixture(scope="module")
def sizes():
    return [9, 5, 7, 12, 3, 8, 20, 6]


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory, sizes):
    clients = list(zip(make_clients(sizes), make_clients(sizes[::-1]), strict=True))
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
    np.testing.assert_array_equal(some.x[:8], clients[5][0][0])
    np.testing.assert_array_equal(some.y[8:17], clients[0][0][1])
    assert some.offsets.tolist() == [0, 8, 17]
    assert len(some.y) == 32


OPTIONS = {
    "requirement": maxfl.solo(steps=5), "seed": 3, "participation": maxfl.decline(2, dropout=0.2),
    "adversary": maxfl.adversary.byzantine(0.3),
}  # fmt: skip


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


def test_which_methods_look_at_requirements():
    params = MODEL.init(jax.random.key(0))
    for method, expected in (
        (maxfl.fedavg(), False), (maxfl.maxfl(), True), (maxfl.scaffold(), False),
        (maxfl.qffl(), False), (maxfl.mwfed(), True),
    ):  # fmt: skip
        hyper = jax.tree.map(lambda a: np.asarray(a, np.float32)[None], method.hyper)
        found = reads_requirement(method._replace(hyper=None), hyper, params, Rule.EVERYONE)
        assert found is expected, method.name
        assert reads_requirement(method, hyper, params, Rule.DECLINE)


def test_clients_keep_what_they_kept(tmp_path):
    like = {"a": np.zeros(3, np.float32), "b": np.zeros((), np.int32)}
    with ClientStore(tmp_path, like, 10) as store:
        fresh = {"a": np.ones(3, np.float32), "b": np.int32(7)}
        first = store.read(np.array([4, 9]), fresh)
        assert first["b"].tolist() == [7, 7]
        store.write(np.array([9, 4]), {"a": np.arange(6.0).reshape(2, 3), "b": np.array([1, 2])})
        store.write(np.array([4, 0]), {"a": np.full((2, 3), 5.0), "b": np.array([3, 4])})
        found = store.read(np.array([0, 4, 9, 1]), fresh)
        assert found["b"].tolist() == [4, 3, 1, 7]
        assert found["a"].tolist() == [[5] * 3, [5] * 3, [0, 1, 2], [1] * 3]
        assert store.used == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"participation": maxfl.opt_out()}, r"take maxfl\.decline"),
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
    with pytest.raises(InputError, match="is not empty"):
        write_federation(folder, clients, classes=3)
    path = folder / "train-x.bin"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(InputError, match="damaged or was not written to its end"):
        open_federation(folder)
    with pytest.raises(InputError, match="train data of client 1: label 2, but classes = 2"):
        write_federation(tmp_path / "few", [_binary(clients[0]), clients[6]], classes=2)
    assert json.loads((folder / "federation.json").read_text())["clients"] == 8


def _binary(client):
    return [(x, np.minimum(y, 1)) for x, y in client]
