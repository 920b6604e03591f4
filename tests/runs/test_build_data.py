"""From settings to a federation: own arrays, and data sets from folders."""

import numpy as np
import pytest

from maxfl.data.registry import fashion_mnist_files
from maxfl.runs.build import build_federation
from maxfl.runs.build_data import prepare_federation
from maxfl.runs.configs.data import DataConfig
from maxfl.runs.configs.file import validate
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
