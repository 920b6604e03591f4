"""From a table to a data set: roles of columns, owners, the split, missing values."""

import numpy as np
import pyarrow as pa
import pytest

from maxfl.data.partition import OwnParts
from maxfl.data.tables.columns import read_dataset
from maxfl.data.tables.roles import TableOptions
from maxfl.data.tables.table import from_arrow
from maxfl.utils.errors import InputError

COLUMNS = {
    "hospital": ["north", "south", "north", "east"],
    "age": [70, 54, 61, 38],
    "weight": [81.0, 64.5, 90.0, 70.0],
    "ill": ["yes", "no", "no", "yes"],
    "part": ["train", "train", "test", "test"],
}


def read(columns, **options):
    given = {"client": "hospital", "label": "ill", **options}
    return read_dataset(from_arrow(pa.table(columns), "t", "the frame"), TableOptions(**given))


def test_every_column_has_a_role():
    dataset, kept = read(COLUMNS, split="part")
    assert kept is None
    assert dataset.features == ("age", "weight")
    assert dataset.labels == ("no", "yes")
    assert dataset.owner_names[dataset.owner].tolist() == COLUMNS["hospital"]
    assert dataset.is_test.tolist() == [False, False, True, True]
    assert dataset.standardized.all()
    assert read(COLUMNS, drop=("part", "age"), standardize=False).dataset.standardized is None
    ordered = read(COLUMNS, features=("weight", "age")).dataset
    assert ordered.x[0].tolist() == [81.0, 70.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"label": "il"}, "no column 'il', given for the label; .*'age'.*Did you mean 'ill'"),
        ({"client": "clinic"}, "no column 'clinic', given for the client"),
        ({"features": ("age", "agee")}, "given for the features; .*Did you mean 'age'"),
        ({"drop": ("id",)}, "no column 'id', given for the dropped columns"),
        ({"split": "fold"}, "no column 'fold', given for the split"),
        ({"label": "hospital"}, "column 'hospital' can't be both client and label"),
        ({"features": ("age", "age")}, "column 'age' can't be features twice"),
        ({"features": ("age", "ill")}, "column 'ill' can't be both label and features"),
        ({"drop": ("age", "weight", "part")}, "no column left for features"),
        ({"label": ()}, "label names no column"),
        ({"encode": "onehot"}, "encode = 'onehot': expected one of one-hot, ordinal. Did you"),
        ({"missing": "median"}, "missing = 'median': expected one of drop-rows, mean, zero"),
        ({"task": "ranking"}, "task = 'ranking': expected one of classification, regression"),
    ],
)
def test_columns_that_are_not_there_or_twice(options, words):
    with pytest.raises(InputError, match=words):
        read(COLUMNS, **options)


def test_a_column_without_a_name_is_pandas_index():
    with pytest.raises(InputError, match="column 1 of the frame has no name, as the index that"):
        read({"": [0, 1, 2, 3], **COLUMNS}, drop=("part",))
    read({"": [0, 1, 2, 3], **COLUMNS}, drop=("part", ""))


def test_names_of_clients_keep_all_their_digits():
    wide = [2**62 + 1, 2**62 + 2, 2**62 + 1, 2**63 - 1]
    dataset = read({**COLUMNS, "hospital": wide}, drop=("part",)).dataset
    assert dataset.owner_names[dataset.owner].tolist() == [str(name) for name in wide]
    floats = read({**COLUMNS, "hospital": [1.0, 2.0, 1.0, 3.0]}, drop=("part",)).dataset
    assert floats.owner_names.tolist() == ["1", "2", "3"]
    with pytest.raises(InputError, match="client column 'hospital' is list"):
        read({**COLUMNS, "hospital": [[1], [2], [1], [3]]})


def test_splits_say_what_rows_are_judged_by():
    for word in ("judging", "validation", "val"):
        part = ["train", word, "test", word]
        dataset = read({**COLUMNS, "part": part}, split="part").dataset
        assert dataset.is_test.tolist() == [False, False, True, False]
        assert dataset.is_judging.tolist() == [False, True, False, True]
    assert read(COLUMNS, split="part").dataset.is_judging is None
    part = ["judging", "train", "test", "train"]
    kept = read({**LACKING, "part": part}, split="part", missing="drop-rows").dataset
    assert kept.is_judging.tolist() == [True, False]


def test_splits_say_train_or_test():
    for values, words in (
        (["train", "valid", "test", "dev"], "has 'dev', 'valid'; expected 'train', 'test' or"),
        (["train", None, "test", "test"], "has no value in 1 rows"),
    ):
        with pytest.raises(InputError, match=f"split column 'part' {words}"):
            read({**COLUMNS, "part": values}, split="part")
    with pytest.raises(InputError, match="split column 'part' is bool: expected 'train'"):
        read({**COLUMNS, "part": [True, False, True, True]}, split="part")
    split = from_arrow(pa.table(COLUMNS), "t", "the folder")._replace(
        own=OwnParts(np.ones(4, bool))
    )
    with pytest.raises(InputError, match="has its own splits: leave the split column"):
        read_dataset(split, TableOptions("ill", "hospital", split="part"))


LACKING = {
    **COLUMNS,
    "hospital": ["north", "south", "north", None],
    "age": [70, None, 61, 38],
    "weight": [81.0, float("nan"), 90.0, 70.0],
}
WHOLE_CLIENTS = {**LACKING, "hospital": COLUMNS["hospital"]}


def test_missing_values_are_refused_by_column_and_count():
    with pytest.raises(InputError) as error:
        read(LACKING, drop=("part",))
    for words in ("client 'hospital' (1)", "'age' (1)", "'weight' (1)", "of 4 rows", "drop-rows"):
        assert words in str(error.value)
    with pytest.raises(InputError, match=r"missing values in client 'hospital' \(1\), of 4 rows"):
        read(LACKING, drop=("part",), missing="mean")
    with pytest.raises(InputError, match=r"in label 'ill' \(1\), of 4 rows"):
        read({**COLUMNS, "ill": ["yes", None, "no", "no"]}, drop=("part",), missing="zero")


def test_rows_with_missing_values_are_left_out():
    dataset, kept = read(LACKING, split="part", missing="drop-rows")
    assert kept.tolist() == [True, False, True, False]
    assert dataset.x.tolist() == [[70, 81], [61, 90]]
    assert dataset.y.tolist() == [1, 0]
    assert dataset.is_test.tolist() == [False, True]
    assert dataset.notes == ("2 of 4 rows with missing values are left out",)
    assert read(COLUMNS, drop=("part",), missing="drop-rows").kept is None
    with pytest.raises(InputError, match="every row has a missing value, in one of 'age'"):
        read({**COLUMNS, "age": pa.nulls(4, pa.int64())}, drop=("part",), missing="drop-rows")


def test_missing_features_are_filled_in():
    zero = read(WHOLE_CLIENTS, drop=("part",), missing="zero").dataset
    assert zero.x[1].tolist() == [0, 0]
    assert not zero.fills_missing
    mean = read(WHOLE_CLIENTS, drop=("part",), missing="mean").dataset
    assert np.isnan(mean.x[1]).all()  # until training rows are known
    assert mean.fills_missing
    assert not read(COLUMNS, drop=("part",), missing="mean").dataset.fills_missing
