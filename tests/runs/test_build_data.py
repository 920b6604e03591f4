"""From settings to a federation: own arrays, and data sets from folders."""

import os

import numpy as np
import pytest

from maxfl.core.federation_files import open_federation
from maxfl.data import partition
from maxfl.data.registry import fashion_mnist_files
from maxfl.runs.build import build, build_federation
from maxfl.runs.build_data import prepare_federation, write_prepared
from maxfl.runs.configs.data import DataConfig
from maxfl.runs.configs.file import validate
from maxfl.utils.errors import InputError
from support.data_files import idx


def test_own_arrays_from_a_file(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "mine.npz"
    owner = np.repeat(["eve", "bob", "ann"], [10, 20, 30])
    np.savez(path, x=rng.normal(size=(60, 5)), y=rng.integers(0, 2, 60), client=owner)
    raw = {"data": {"source": "arrays", "file": str(path), "partition": "by-owner", "unseen": 1}}
    fed = build_federation(validate(raw, "mine"))
    assert fed.clients == 3
    assert fed.seen == 2
    sizes = dict(zip(fed.names.tolist(), fed.train_sizes + fed.test_sizes, strict=True))
    assert sizes == {"eve": 10, "bob": 20, "ann": 30}


def test_a_class_without_samples_takes_part_in_what_is_drawn(tmp_path):
    path, y = tmp_path / "mine.npz", np.arange(60) % 3 + 1
    np.savez(path, x=np.arange(60.0)[:, None], y=y)
    settings = {"source": "arrays", "file": path, "clients": 3, "unseen": 0}
    fed = prepare_federation(DataConfig(**settings, alpha=0.5, samples=10), 0)
    wanted = partition.dirichlet(y, 3, 10, 0.5, partition.generator(0), classes=4).parts
    found = np.append(fed.train.x[: fed.train.offsets[1]], fed.test.x[: fed.test.offsets[1]])
    assert sorted(found) == sorted(wanted[0])
    with pytest.raises(InputError, match=r"^in .data., 3 clients .*: lower clients, unseen or sam"):
        prepare_federation(DataConfig(**settings, samples=30), 0)


@pytest.mark.usefixtures("own_cache")
def test_another_folder_of_data_is_not_mistaken_for_the_last(tmp_path, monkeypatch):
    wanted = {"source": "fashion-mnist", "part": "test", "partition": "iid", "unseen": 0}
    for value in (1, 2):
        folder = tmp_path / str(value)
        folder.mkdir()
        arrays = np.full((2, 4, 4), value), np.zeros(2)
        for file, array in zip(fashion_mnist_files("test")[0], arrays, strict=True):
            (folder / file.name).write_bytes(idx(array))
        monkeypatch.setenv("MAXFL_DATA", str(folder))
        fed = prepare_federation(DataConfig(**wanted, clients=1, samples=2), 0)
        assert (fed.train.x == value).all()


def table(tmp_path, shift=0.0):
    """Write a table of 40 patients of four hospitals."""
    rows = [f"h{k % 4},{k % 7 + shift},{'' if k == 9 else k * k},{k % 3 > 0}" for k in range(40)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["hospital,age,dose,ill", *rows]))
    return DataConfig(file=path, client_column="hospital", label_column="ill", missing="mean")


def test_a_table_that_has_changed_is_read_again(tmp_path):
    first = prepare_federation(table(tmp_path), 0)
    assert prepare_federation(table(tmp_path), 0).digest() == first.digest()
    os.utime(tmp_path / "t.csv", ns=(0, 0))
    changed = prepare_federation(table(tmp_path, shift=100.0), 0)
    np.testing.assert_array_equal(changed.train.x[:, 0], first.train.x[:, 0] + 100)


def test_a_table_on_disk_is_the_one_in_memory(tmp_path):
    data = table(tmp_path)
    write_prepared(data, 0, tmp_path / "disk", lambda *_: None)
    ours, theirs = prepare_federation(data, 0), open_federation(tmp_path / "disk")
    for split in ("train", "test"):
        for a, b in zip(getattr(ours, split), getattr(theirs, split), strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(ours.input_scaling, theirs.input_scaling, strict=True):
        np.testing.assert_array_equal(a, b)
    assert theirs.metadata.features == ("age", "dose")


def test_a_table_that_says_what_is_judged_by_is_run_and_written_with_it(tmp_path):
    words = ["train", "train", "judging", "test", "val"]
    rows = [f"h{k % 4},{k},{k % 3 > 0},{words[k // 4 % 5]}" for k in range(40)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["hospital,age,ill,part", *rows]))
    columns = {"client_column": "hospital", "label_column": "ill", "split_column": "part"}
    raw = {
        "data": {"file": str(path), **columns}, "model": {"name": "logistic"},
        "training": {"cohort": 2},
    }  # fmt: skip
    simulation = build([validate(raw, "mine")])
    ran = simulation.session.experiment.federation
    assert [part.tolist() for part in (ran.train_sizes, ran.judging_sizes)] == [[4] * 4] * 2
    assert sorted(ran.test.x.ravel()) == [k for k in range(40) if words[k // 4 % 5] == "test"]
    write_prepared(DataConfig(file=path, **columns), 0, tmp_path / "disk", lambda *_: None)
    theirs = open_federation(tmp_path / "disk")
    for ours, written in zip(ran.judging, theirs.judging, strict=True):
        np.testing.assert_array_equal(ours, written)
    other = {"partition": "iid", "clients": 3, "unseen": 0, "samples": 8}
    columns = {"label_column": "ill", "drop_columns": ("hospital", "part")}
    assert prepare_federation(DataConfig(file=path, **other, **columns), 0).judging is None


def test_a_table_may_be_split_as_other_data_are(tmp_path):
    wanted = {"partition": "dirichlet", "clients": 3, "unseen": 1, "samples": 8}
    data = table(tmp_path).model_copy(update={**wanted, "client_column": None})
    with pytest.raises(InputError, match="columns 'hospital' hold text"):
        prepare_federation(data, 0)
    fed = prepare_federation(data.model_copy(update={"drop_columns": ("hospital",)}), 0)
    assert (fed.train_sizes + fed.test_sizes).tolist() == [8] * 4
