"""A federation as files: what is written is what is read, and damage is found."""

import json

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
    some = read_clients(found.train, np.array([5, 0]), room=32)
    np.testing.assert_array_equal(some.x[:10], CLIENTS[5][0][0])
    np.testing.assert_array_equal(some.y[10:19], CLIENTS[0][0][1])
    assert some.offsets.tolist() == [0, 10, 19]
    assert len(some.y) == 32


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
