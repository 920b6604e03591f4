"""Files of tables: each kind is read, and what is damaged is refused in words."""

import gzip
import importlib.util

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather, ipc

from maxfl.data.tables.files import read_table
from maxfl.utils.errors import InputError

TABLE = pa.table({"who": ["a", "b", "a"], "x": [1.5, 2.5, 3.5], "y": [0, 1, 0]})


def columns(table):
    return {name: table.column(name).to_pylist() for name in table.names}


def write_stream(path):
    with ipc.new_stream(path, TABLE.schema) as stream:
        stream.write_table(TABLE)


WRITERS = {
    "t.csv": lambda path: csv.write_csv(TABLE, path),
    "t.CSV.gz": lambda path: path.write_bytes(gzip.compress(b"who,x,y\na,1.5,0\nb,2.5,1\na,3.5,0")),
    "t.tsv": lambda path: path.write_text("who\tx\ty\na\t1.5\t0\nb\t2.5\t1\na\t3.5\t0\n"),
    "t.parquet": lambda path: pq.write_table(TABLE, path),
    "t.feather": lambda path: feather.write_feather(TABLE, path),
    "t.arrow": write_stream,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_is_read(tmp_path, name):
    WRITERS[name](tmp_path / name)
    table = read_table(tmp_path / name)
    assert columns(table) == TABLE.to_pydict()
    assert table.rows == 3
    assert table.title == name


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffwho;x;y\na;1.5;0\nb;2.5;1\na;3.5;0\n",  # Excel in countries with decimal commas
        '"who","x","y"\r\n"a",1.5,0\r\n"b",2.5,1\r\n"a",3.5,0\r\n',
        "who|x|y\na|1.5|0\nb|2.5|1\na|3.5|0",
    ],
    ids=["semicolons and BOM", "quotes", "bars"],
)
def test_csv_as_others_write_it(tmp_path, text):
    (tmp_path / "t.csv").write_bytes(text.encode())
    assert columns(read_table(tmp_path / "t.csv")) == TABLE.to_pydict()


def test_types_are_those_of_all_rows_and_names_keep_their_zeros(tmp_path, monkeypatch):
    monkeypatch.setattr("maxfl.data.tables.files.FIRST_ROWS", 64)
    rows = [f"{k:03d},{k}" for k in range(50)]
    (tmp_path / "t.csv").write_text("\n".join(["who,x", *rows, "007,0.5"]))
    table = read_table(tmp_path / "t.csv", ["who"])
    assert table.column("x").to_pylist()[-2:] == [49.0, 0.5]
    assert table.column("who").to_pylist()[-1] == "007"


def test_values_may_go_over_several_lines(tmp_path):
    rows = "".join(f'{k},"two\nlines, {k}"\n' for k in range(60_000))  # more than a block
    (tmp_path / "t.csv").write_text(f"x,note\n{rows}")
    table = read_table(tmp_path / "t.csv")
    assert table.rows == 60_000
    assert table.column("note")[-1].as_py() == "two\nlines, 59999"


def test_missing_text_is_missing_unless_it_is_in_quotes(tmp_path):
    (tmp_path / "t.csv").write_text('a,b\n,1\n"",2\nNA,3\n"NA",\n')
    table = read_table(tmp_path / "t.csv")
    assert columns(table) == {"a": [None, "", None, "NA"], "b": [1, 2, 3, None]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"a,b\n", "has no rows, only the columns 'a', 'b'"),
        (b"a,a,b\n1,2,3\n", "several columns named 'a'"),
        (b"a,b\n1,2\n3\n", "can't be read, or was cut off: .*Expected 2 columns, got 1"),
        (b"a,b\nx,1\n\xe9t\xe9,2\n", "is not text in UTF-8"),
        (b"\xe9,b\n1,2\n", "is not text in UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "is not text in UTF-8"),
    ],
    ids=["empty", "header", "twice", "ragged", "latin-1", "latin-1 header", "utf-16"],
)
def test_csv_that_can_not_be_read(tmp_path, content, words):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"data.file = .*t.csv.* {words}"):
        read_table(path)


@pytest.mark.parametrize("name", ["t.CSV.gz", "t.parquet", "t.feather", "t.arrow"])
def test_files_that_were_cut_off(tmp_path, name):
    path = tmp_path / name
    WRITERS[name](path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"can't be read, or was cut off|no rows"):
        read_table(path).column("x")


def test_other_files_and_folders(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="there is no such file"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"suffix '.xlsx'; tables end in '.csv', '.tsv'"):
        read_table(tmp_path / "t.xlsx")
    with pytest.raises(InputError, match="but none of Hugging Face's save_to_disk"):
        read_table(tmp_path)
    (tmp_path / "state.json").write_text("{}")
    monkeypatch.setattr("maxfl.data.tables.files.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r'pip install "maxfl\[hf\]"'):
        read_table(tmp_path)


@pytest.mark.extras
@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="needs maxfl[hf]")
def test_folders_of_hugging_face(tmp_path):
    import datasets

    datasets.disable_progress_bars()
    kinds = {
        "who": datasets.Value("string"),
        "y": datasets.ClassLabel(names=["no", "yes"]),
        "x": datasets.Sequence(datasets.Value("float32"), length=2),
    }
    rows = {"who": list("abcb"), "y": [0, 1, 0, 1], "x": np.arange(8.0).reshape(4, 2).tolist()}
    whole = datasets.Dataset.from_dict(rows, features=datasets.Features(kinds))
    # A choice of rows is a list of numbers beside the data until it is saved.
    whole.select([3, 0, 1]).save_to_disk(tmp_path / "one")
    assert read_table(tmp_path / "one").column("who").to_pylist() == ["b", "a", "b"]
    parts = {"test": whole.select([3]), "train": whole.select([0, 1]), "val": whole.select([2])}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "several")
    table = read_table(tmp_path / "several")
    assert table.column("who").to_pylist() == ["a", "b", "b"]
    assert table.own.is_test.tolist() == [False, False, True]
    assert table.own.is_judging is None
    assert table.notes == ("the splits 'val' are not read",)
    datasets.DatasetDict(parts | {"judging": parts["val"]}).save_to_disk(tmp_path / "three")
    three = read_table(tmp_path / "three")
    assert three.own.is_judging.tolist() == [False, False, True, False]
    assert three.notes == table.notes
    datasets.DatasetDict(val=whole).save_to_disk(tmp_path / "other")
    with pytest.raises(InputError, match="has the splits 'val', but no 'train'"):
        read_table(tmp_path / "other")
    (tmp_path / "one/state.json").write_text("{")
    with pytest.raises(InputError, match="can't be read, or was cut off"):
        read_table(tmp_path / "one")
