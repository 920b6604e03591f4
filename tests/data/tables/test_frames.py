"""A frame and the same table as a file are the same federation, bit for bit."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather

import maxfl
from maxfl.core.federation import Federation
from maxfl.data.partition import Split
from maxfl.runs.build_data import prepare_federation
from maxfl.runs.configs.data import DataConfig
from maxfl.utils.errors import InputError

RNG = np.random.default_rng(0)
ROWS = 60
TABLE = pa.table(
    {
        "hospital": RNG.choice(["north", "south", "east", "west"], ROWS),
        "age": RNG.integers(20, 90, ROWS),
        "weight": pa.array(RNG.normal(70, 9, ROWS), mask=np.arange(ROWS) % 20 == 3),
        "smoker": RNG.random(ROWS) < 0.3,
        "ward": RNG.choice(["icu", "er"], ROWS),
        "ill": RNG.choice(["no", "yes"], ROWS),
    }
)
ROLES = {"client": "hospital", "label": "ill"}
OPTIONS = {"encode": "one-hot", "missing": "mean", "unseen": 1}
CONFIG = {"client_column": "hospital", "label_column": "ill", **OPTIONS}
WRITERS = {
    "t.csv": csv.write_csv,
    "t.parquet": pq.write_table,
    "t.arrow": feather.write_feather,
}


def from_frame(frame=TABLE, **options):
    return Federation.from_dataframe(frame, **{**ROLES, **OPTIONS, **options})


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_the_same_federation(tmp_path, name):
    WRITERS[name](TABLE, str(tmp_path / name))
    data = DataConfig(file=tmp_path / name, **CONFIG)
    assert prepare_federation(data, 3).digest() == from_frame(seed=3).digest()
    assert prepare_federation(data, 4).digest() != from_frame(seed=3).digest()


def test_what_is_known_of_the_columns_is_kept():
    federation = from_frame()
    assert (federation.clients, federation.seen) == (4, 3)
    assert federation.metadata.labels == ("no", "yes")
    assert federation.metadata.features == ("age", "weight", "smoker", "ward=er", "ward=icu")
    assert federation.metadata.notes == ("column 'ward' is encoded one-hot: er, icu",)
    assert not np.isnan(federation.train.x).any()
    scaling, seen = federation.input_scaling, federation.train.offsets[federation.seen]
    inputs = (federation.train.x[:seen] - scaling.shift) * scaling.scale
    np.testing.assert_allclose(inputs[:, :2].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(inputs[:, :2].std(0), 1, atol=1e-5)
    assert set(np.unique(inputs[:, 2:])) == {0, 1}


def test_clients_may_be_drawn_by_a_partitioner():
    y = TABLE["ill"].to_numpy(zero_copy_only=False)
    split = maxfl.partition.dirichlet(y, 6, 10, 0.5, 0)
    federation = from_frame(client=split, drop=["hospital"], unseen=2)
    assert (federation.clients, federation.seen) == (6, 4)
    fewer = from_frame(client=split, drop=["hospital"], missing="drop-rows")
    assert (fewer.train_sizes + fewer.test_sizes).sum() == 57
    weights = {float(np.float32(w)) for w in TABLE["weight"].drop_null().to_pylist()}
    assert {float(w) for w in fewer.train.x[:, 1]} <= weights
    with pytest.raises(InputError, match="split of other samples than the 60 rows of the frame"):
        from_frame(client=Split([np.array([60, 61])]))


def test_columns_may_be_several():
    federation = from_frame(label=["age", "smoker"], drop=["ill"])
    assert federation.classes is None
    assert federation.train.y.shape[1:] == (2,)


def test_few_rows_are_left_out_or_refused():
    small = pa.concat_tables([TABLE, TABLE.slice(0, 1).set_column(0, "hospital", [["one"]])])
    assert "1 client with fewer than 2 samples is left out" in from_frame(small).metadata.notes
    with pytest.raises(InputError, match=r"^unseen = 4, but there are 4 clients"):
        from_frame(unseen=4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"frame": 3}, "can't be read as a table of columns"),
        ({"frame": {"a": [1, 2], "b": [1]}}, "can't be read as a table"),
        ({"frame": TABLE.slice(0, 0)}, "the frame has no rows, .*: give one with rows"),
        ({"frame": pa.table({})}, "the frame is empty: give one with rows and columns"),
        ({"frame": "t.csv"}, r"frame = 't.csv' names a file: .*pandas.read_csv\('t.csv'\)"),
        ({"frame": Path("t.csv")}, r"names a file: .*pandas.read_csv\('t.csv'\), or .*data.file"),
        ({"client": "hospitl"}, "no column 'hospitl', .*Did you mean 'hospital'"),
        ({"features": "age"}, "features = 'age': expected a list of names of columns"),
        ({"drop": [1]}, r"drop = \[1\]: expected a list of names"),
        ({"client": 0}, "client = 0: name the column"),
        ({"client": None}, "client = None: name the column that says whose each row is"),
        ({"label": None}, "label names no column"),
        ({"unseen": -1}, "unseen = -1"),
        ({"train_fraction": 1.5}, "train_fraction = 1.5"),
    ],
)
def test_frames_and_options_that_are_none(options, words):
    with pytest.raises(InputError, match=words):
        from_frame(**options)


@pytest.mark.extras
@pytest.mark.parametrize("library", ["pandas", "polars", "datasets"])
def test_frames_of_other_libraries(library):
    pytest.importorskip(library)
    if library == "pandas":
        frame = TABLE.to_pandas().set_index(np.arange(ROWS)[::-1])
        frame["ward"] = frame["ward"].astype("category")
        with pytest.raises(InputError, match=r"'hospital' is the index .*frame.reset_index\(\)"):
            from_frame(frame.set_index("hospital"))
    elif library == "polars":
        import polars

        frame = polars.from_arrow(TABLE).with_columns(polars.col("ward").cast(polars.Categorical))
        with pytest.raises(InputError, match=r"frame is a LazyFrame: give frame.collect\(\)"):
            from_frame(frame.lazy())
    else:
        import datasets

        frame = datasets.Dataset(TABLE)
        with pytest.raises(InputError, match=r"splits 'train', 'test': .* as frame\['train'\]"):
            from_frame(datasets.DatasetDict(train=frame, test=frame))
    assert from_frame(frame).digest() == from_frame().digest()


@pytest.mark.extras
def test_pandas_needs_the_types_of_the_file(tmp_path):
    pandas = pytest.importorskip("pandas")
    numbered = TABLE.set_column(0, "hospital", [[f"{k % 4:03d}" for k in range(ROWS)]])
    csv.write_csv(numbered, tmp_path / "t.csv", csv.WriteOptions(quoting_style="none"))
    wanted = prepare_federation(DataConfig(file=tmp_path / "t.csv", **CONFIG), 0)
    assert sorted(wanted.metadata.names) == ["000", "001", "002", "003"]
    text = pandas.read_csv(tmp_path / "t.csv", dtype={"hospital": str})
    assert from_frame(text).digest() == wanted.digest()
    assert "1" in from_frame(pandas.read_csv(tmp_path / "t.csv")).metadata.names


@pytest.mark.extras
def test_pandas_columns_of_several_types_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"hospital": ["a", "b"], "ill": [0, 1], "age": [3, "x"]})
    with pytest.raises(InputError, match=r"each of one type.*age"):
        from_frame(frame)
    double = pandas.DataFrame([[1, 2, 3]], columns=["hospital", "ill", "ill"])
    with pytest.raises(InputError, match=r"[Dd]uplicate column names"):
        from_frame(double)
