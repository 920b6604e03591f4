"""Labels of a table: classes, numbers, and what could be either."""

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from maxfl.data.tables.labels import read_labels
from maxfl.data.tables.roles import TableOptions
from maxfl.data.tables.table import from_arrow
from maxfl.utils.errors import InputError


def labels(values, task=None, metadata=None):
    table = pa.table({"y": values}).replace_schema_metadata(metadata)
    return read_labels(from_arrow(table, "t", "the frame"), TableOptions("y", task=task))


@pytest.mark.parametrize(
    ("values", "names", "y"),
    [
        (["no", "yes", "no"], ("no", "yes"), [0, 1, 0]),
        ([True, False, True], ("false", "true"), [1, 0, 1]),
        ([3, 10, 3, 5], ("3", "5", "10"), [0, 2, 0, 1]),
        ([-1, 1, -1], ("-1", "1"), [0, 1, 0]),
        (pa.array(["b", "a"]).dictionary_encode(), ("a", "b"), [1, 0]),
        (pa.array(["b", "a"], pa.string_view()), ("a", "b"), [1, 0]),
    ],
    ids=["text", "yes and no", "whole", "plus and minus", "categories", "views"],
)
def test_classes_are_the_values_in_their_order(values, names, y):
    found = labels(values)
    assert found.names == names
    assert found.y.tolist() == y
    assert found.y.dtype == np.int32
    assert not found.missing.any()


def test_floats_are_numbers_unless_they_look_like_classes():
    found = labels([0.5, 1.0, None])
    assert found.names == ()
    assert found.y.dtype == np.float32
    assert found.missing.tolist() == [False, False, True]
    assert labels([Decimal("0.5"), Decimal("1.0")]).y.tolist() == [0.5, 1.0]
    with pytest.raises(InputError, match="is double, but all values are whole: '0', '1'; say what"):
        labels([0.0, 1.0, float("nan")])
    assert labels([0.0, 1.0, None], "classification").y.tolist() == [0, 1, -1]
    assert labels([0.0, 1.0], "regression").y.dtype == np.float32
    assert labels(np.arange(30.0)).names == ()
    with pytest.raises(InputError, match=r"has fractions, as 0.5, which are no classes"):
        labels([0.5, 1.0], "classification")


def test_whole_numbers_may_be_numbers_to_predict():
    assert labels([3, 10], "regression").y.tolist() == [3.0, 10.0]
    with pytest.raises(InputError, match="whole numbers from -3 to 5, below 0 too; say what is"):
        labels([-3, 5])
    assert labels([-3, 5], "classification").names == ("-3", "5")
    with pytest.raises(InputError, match="has 1,200 different values, as '0', '1', '2' and 1197"):
        labels(np.arange(1200))
    with pytest.raises(InputError, match="has one value only, '3': there is nothing to predict"):
        labels([3, 3, None])
    with pytest.raises(InputError, match="is text, no numbers"):
        labels(["a"], "regression")


def test_hugging_faces_classes_keep_their_numbers_and_names():
    feature = {"names": ["cat", "dog", "eel"], "_type": "ClassLabel"}
    metadata = {"huggingface": json.dumps({"info": {"features": {"y": feature}}})}
    found = labels([2, 0, 2, -1], metadata=metadata)
    assert found.names == ("cat", "dog", "eel")
    assert found.y.tolist() == [2, 0, 2, -1]
    assert found.missing.tolist() == [False, False, False, True]
    with pytest.raises(InputError, match="the number 3, but only 3 classes have names"):
        labels([3], metadata=metadata)
    with pytest.raises(
        InputError, match=r"has the classes 'cat', 'dog', 'eel', no numbers .*leave"
    ):
        labels([2, 0], "regression", metadata)


def test_several_columns_are_several_numbers():
    table = pa.table({"a": [1, 0], "b": [True, False], "c": [0.5, 1.5], "d": ["x", "y"]})
    source = from_arrow(table, "t", "the frame")
    whole = read_labels(source, TableOptions(("a", "b")))
    assert whole.y.tolist() == [[1, 1], [0, 0]]
    assert whole.y.dtype == np.int32
    assert read_labels(source, TableOptions(("a", "c"))).y.tolist() == [[1, 0.5], [0, 1.5]]
    assert read_labels(source, TableOptions(("a", "b"), task="regression")).y.dtype == np.float32
    with pytest.raises(InputError, match="but 'd' hold text"):
        read_labels(source, TableOptions(("a", "d")))
    with pytest.raises(InputError, match='but task = "classification" takes one column'):
        read_labels(source, TableOptions(("a", "b"), task="classification"))


def test_large_whole_numbers_stay_apart_or_are_refused():
    seconds = np.arange(1_700_000_000, 1_700_000_040)
    source = from_arrow(pa.table({"a": seconds, "b": seconds[::-1]}), "t", "the frame")
    several = read_labels(source, TableOptions(("a", "b")))
    assert several.y.tolist() == np.stack([seconds, seconds[::-1]], 1).tolist()
    with pytest.raises(InputError, match="label column 'a' has whole numbers from 1,700,000,000"):
        read_labels(source, TableOptions(("a", "b"), task="regression"))
    with pytest.raises(InputError, match=r"which float32 can't tell apart: subtract the smallest"):
        labels(seconds, "regression")
    milli = from_arrow(pa.table({"a": [1, None], "b": [2**40, 1]}), "t", "the frame")
    with pytest.raises(InputError, match="column 'b' has whole numbers beyond 32 bits: subtract"):
        read_labels(milli, TableOptions(("a", "b")))
    assert read_labels(milli, TableOptions(("a", "a"))).missing.tolist() == [False, True]


def test_dates_are_no_labels():
    with pytest.raises(InputError, match=r"label column 'y' is date32.*expected text, whole"):
        labels(pa.array([1, 2], pa.date32()))
