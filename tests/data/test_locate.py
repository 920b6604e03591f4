"""Where data files are looked for, and what is said where they are not."""

import pytest

import maxfl
from maxfl.data import locate
from maxfl.data.download import UnavailableError
from maxfl.data.locate import find, obtain
from maxfl.data.registry import FASHION_MNIST, SENTIMENT140_SAMPLE, glove_file

pytestmark = pytest.mark.usefixtures("own_cache")


def test_the_search_order(tmp_path, monkeypatch):
    file = FASHION_MNIST["t10k-labels-idx1-ubyte"]._replace(packaged=str(tmp_path / "package"))
    places = [tmp_path / "given/fmnist", tmp_path / "variable", tmp_path / "package",
              tmp_path / "cache/maxfl/data/fmnist"]  # fmt: skip
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MAXFL_DATA", "~/variable")
    with pytest.raises(maxfl.InputError, match=r"data\.dir = .*given: there is no such folder"):
        find(file, tmp_path / "given")
    (tmp_path / "given").mkdir()
    with pytest.raises(maxfl.InputError, match="MAXFL_DATA = ~/variable: there is no such folder"):
        find(file, tmp_path / "given")
    (tmp_path / "variable").mkdir()
    assert find(file, tmp_path / "given") is None
    for folder in reversed(places):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{file.name}.gz").write_bytes(b"")
        assert find(file, tmp_path / "given").path.parent == folder


def test_offline_the_error_says_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.delenv("MAXFL_DATA", raising=False)

    def unreachable(*_):
        raise UnavailableError("no network")

    monkeypatch.setattr(locate, "fetch", unreachable)
    file = FASHION_MNIST["t10k-labels-idx1-ubyte"]._replace(packaged=str(tmp_path / "none"))
    with pytest.raises(maxfl.InputError) as caught:
        obtain(file, tmp_path)
    for words_ in (
        "t10k-labels-idx1-ubyte.gz into", str(tmp_path / "fmnist"), "no network",
        "dataset-fashion-mnist", file.download.url,
    ):  # fmt: skip
        assert words_ in str(caught.value)
    with pytest.raises(maxfl.InputError, match="it can't be downloaded"):
        obtain(SENTIMENT140_SAMPLE, tmp_path)
    with pytest.raises(maxfl.InputError, match=r"txt\.gz or the whole glove\.6B\.zip into"):
        obtain(glove_file("glove.6B.50d"), tmp_path)


def test_a_damaged_zip_hides_no_good_copy(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXFL_DATA", str(tmp_path))
    given = tmp_path / "given"
    given.mkdir()
    file = glove_file("glove.6B.50d")
    (given / "glove.6B.zip").write_bytes(b"PK")
    with pytest.raises(maxfl.InputError, match=r"given/glove\.6B\.zip is damaged"):
        find(file, given)
    (tmp_path / file.name).write_text("")
    assert find(file, given).path == tmp_path / file.name
