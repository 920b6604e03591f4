"""A federation as files: what is written is what is read, and damage is found."""

import contextlib
import json
import shutil

import jax
import numpy as np
import pytest

import maxfl
from maxfl.core.federation_files import open_federation, read_clients, write_federation
from maxfl.utils.errors import DiskFullError, InputError
from support.limits import largest_file
from support.streamed import CLIENTS, write_clients


def test_what_is_written_is_what_is_read(tmp_path):
    found = open_federation(write_clients(tmp_path / "clients"))
    whole = maxfl.Federation.from_clients(*zip(*CLIENTS, strict=True), unseen=2, classes=3)
    for ours, theirs in zip(jax.tree.leaves(found[:5]), jax.tree.leaves(whole[:5]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert isinstance(found.train.x, np.memmap)
    some = read_clients(found.train, np.array([5, 0]))
    np.testing.assert_array_equal(some.x[:10], CLIENTS[5][0][0])
    np.testing.assert_array_equal(some.y[10:19], CLIENTS[0][0][1])
    assert some.offsets.tolist() == [0, 10, 19]


def test_three_parts_are_written_and_read(tmp_path):
    clients = [
        (train, judging, test)
        for (train, test), (_, judging) in zip(CLIENTS, CLIENTS[::-1], strict=True)
    ]
    found = open_federation(write_federation(tmp_path / "clients", clients, classes=3, unseen=2))
    train, judging, test = zip(*clients, strict=True)
    whole = maxfl.Federation.from_clients(train, test, judging=judging, unseen=2, classes=3)
    for name in ("train", "judging", "test"):
        for ours, theirs in zip(getattr(found, name), getattr(whole, name), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert isinstance(found.judging.x, np.memmap)
    np.testing.assert_array_equal(found.judging_sizes, [len(y) for _, y in judging])
    assert found.digest() != open_federation(write_clients(tmp_path / "two")).digest()
    path = tmp_path / "clients/judging-y.bin"
    path.write_bytes(path.read_bytes()[:-4] + b"\xff" * 4)
    with pytest.raises(InputError, match=r"judging-y\.bin does not hold labels from 0 to 2"):
        open_federation(tmp_path / "clients")


@pytest.mark.parametrize("labels", [np.float32, np.int32])
def test_labels_of_any_shape_are_written(tmp_path, labels):
    clients = [[(x, np.stack([y, -y], 1).astype(labels)) for x, y in client] for client in CLIENTS]
    found = open_federation(write_federation(tmp_path / "clients", clients, classes=None))
    assert found.classes is None
    assert found.train.y.dtype == labels
    np.testing.assert_array_equal(found.train.y[:9], clients[0][0][1])
    np.testing.assert_array_equal(read_clients(found.test, np.array([3])).y, clients[3][1][1])
    with pytest.raises(InputError, match=r"labels are .*, but classes = 3"):
        write_federation(tmp_path / "more", clients, classes=3)
    with pytest.raises(InputError, match=r"labels are .*, but classes = None"):
        write_federation(tmp_path / "more", CLIENTS, classes=None)


def test_broken_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="holds no federation"):
        open_federation(tmp_path)
    folder = write_federation(tmp_path / "clients", CLIENTS, classes=3)
    with pytest.raises(InputError, match="is not an empty folder"):
        write_federation(folder, CLIENTS, classes=3)
    path = folder / "train-x.bin"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(InputError, match="damaged or was not written to its end"):
        open_federation(folder)
    with pytest.raises(InputError, match="train data of client 1: label 2, but classes = 2"):
        write_federation(tmp_path / "few", [_binary(CLIENTS[0]), CLIENTS[6]], classes=2)
    assert json.loads((folder / "federation.json").read_text())["clients"] == 8


def _binary(client):
    return [(x, np.minimum(y, 1)) for x, y in client]


@pytest.mark.parametrize(
    ("file", "at", "words"),
    [
        ("test-y.bin", 8, "test-y.bin does not hold labels from 0 to 2"),
        ("train-offsets.bin", 4, "train-offsets.bin does not hold which samples are whose"),
        ("train-offsets.bin", 0, "train-offsets.bin does not hold which samples are whose"),
        ("train-x.bin", 0, "train-x.bin holds numbers that are NaN or infinite"),
    ],
)
def test_files_of_the_right_size_are_looked_at(tmp_path, file, at, words):
    folder = write_federation(tmp_path / "clients", CLIENTS, classes=3)
    content = bytearray((folder / file).read_bytes())
    content[at : at + 4] = b"\xff" * 4
    (folder / file).write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_clients(open_federation(folder).train, np.array([0]))


def test_what_will_not_fit_is_not_begun(tmp_path):
    with pytest.raises(DiskFullError, match=r"the federation will take 1e\+06 TB"):
        write_federation(tmp_path / "clients", CLIENTS, classes=3, room=10**18)
    assert not (tmp_path / "clients").exists()


@pytest.mark.processes
def test_a_full_disk_ends_the_writing(tmp_path):
    with largest_file(200), pytest.raises(DiskFullError, match="was written is removed"):
        write_clients(tmp_path / "clients")
    assert not list((tmp_path / "clients").iterdir())
    write_clients(tmp_path / "clients")


def test_a_federation_whose_writing_was_cut_off_is_known_as_such(tmp_path):
    folder = tmp_path / "clients"

    def killed():
        """A client, and then a look at what a kill would leave behind."""
        yield CLIENTS[0]
        shutil.copytree(folder, tmp_path / "left")
        yield CLIENTS[1]

    write_federation(folder, killed(), classes=3)
    with pytest.raises(InputError, match="holds part of a federation: another process is writing"):
        write_federation(tmp_path / "left", CLIENTS, classes=3)
    with pytest.raises(InputError, match="was not written to its end"):
        open_federation(tmp_path / "left")
    assert open_federation(folder).clients == 2


def test_files_of_others_survive_a_failed_writing(tmp_path):
    def failing():
        yield CLIENTS[0]
        (tmp_path / "mine.txt").write_text("keep me")
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        write_federation(tmp_path, failing(), classes=3)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("clients", "options", "words"),
    [
        (5, {}, "clients = 5: expected training and test data of each"),
        ([5], {}, "client 0: expected its training and test data"),
        ([(1, 2, 3)], {}, "train data of client 0: expected a pair of arrays"),
        ([(1, 2, 3, 4)], {}, "client 0: expected its training and .* not a tuple of 4"),
        (["ab"], {}, "client 0: expected its training and .* judging and test data.* not a str"),
        (
            [CLIENTS[0], (*CLIENTS[1], CLIENTS[1][0])],
            {},
            "client 1 has train and judging and test data, and those before it train and test",
        ),
        ([(CLIENTS[0][0], 5, CLIENTS[0][1])], {}, "judging data of client 0: expected a pair"),
        ([("ab", "cd")], {}, "train data of client 0: x has shape"),
        ([(None, None)], {}, "train data of client 0: expected a pair of arrays"),
        ([CLIENTS[0], (CLIENTS[0][0], 3)], {}, "test data of client 1: expected a pair"),
        ([], {}, "0 clients"),
        (CLIENTS, {"classes": "3"}, "classes = '3': expected one whole number"),
        (CLIENTS, {"unseen": 1.5}, "unseen = 1.5: expected one whole number"),
        (CLIENTS, {"unseen": 99}, "8 clients, of which 99 are unseen"),
    ],
)
def test_garbage_is_refused_and_leaves_nothing(tmp_path, clients, options, words):
    with pytest.raises(InputError, match=words):
        write_federation(tmp_path / "out", clients, **{"classes": 3, **options})
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


@pytest.mark.parametrize("content", ["null", "[]", "{}", "3", '{"clients": "x"}', "{"])
def test_a_damaged_description_is_refused(tmp_path, content):
    folder = write_federation(tmp_path / "clients", CLIENTS, classes=3)
    (folder / "federation.json").write_text(content)
    with pytest.raises(InputError, match=r"federation\.json"):
        open_federation(folder)


@pytest.mark.parametrize(
    "key", ["clients", "classes", "decoding", "dtype", "features", "samples", "names"]
)
@pytest.mark.parametrize("value", [None, [], {}, "x", -1, 1.5])
def test_fields_of_the_wrong_type_are_refused(tmp_path, key, value):
    folder = write_federation(tmp_path / "clients", CLIENTS, classes=3)
    path = folder / "federation.json"
    description = json.loads(path.read_text())
    path.write_text(json.dumps(description | {key: "y" if description[key] == value else value}))
    with pytest.raises(InputError, match=r"federation\.json is damaged"):
        open_federation(folder)
    without_seal = {k: v for k, v in description.items() if k != "digest"}
    path.write_text(json.dumps(without_seal | {key: value}))
    with contextlib.suppress(InputError):  # of an older version: a federation, or a sentence
        open_federation(folder)
