"""Features of a table: every type becomes numbers, or is refused by name."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from maxfl.data.tables.features import read_features
from maxfl.data.tables.roles import TableOptions
from maxfl.data.tables.table import from_arrow
from maxfl.utils.errors import InputError


def features(columns, **options):
    table = from_arrow(pa.table(columns), "t", "the frame")
    return read_features(table, table.names, TableOptions("y", **options))


def test_numbers_of_all_types_stand_side_by_side():
    found = features(
        {
            "int": [3, 1],
            "big": pa.array([2**63, 0], pa.uint64()),
            "float": [0.5, 1.5],
            "half": np.array([0.5, 2], np.float16),
            "decimal": [Decimal("1.25"), Decimal("-2.50")],
            "yes": [True, False],
        }
    )
    wanted = [[3, 2.0**63, 0.5, 0.5, 1.25, 1], [1, 0, 1.5, 2, -2.5, 0]]
    np.testing.assert_array_equal(found.x, np.array(wanted, np.float32))
    assert found.x.dtype == np.float32
    assert found.names == ("int", "big", "float", "half", "decimal", "yes")
    assert found.standardized.tolist() == [True] * 5 + [False]
    assert found.missing == {}
    assert found.notes == ()


def test_text_is_encoded_only_if_asked_for():
    columns = {"ward": ["icu", "er", "icu", "day"], "age": [4, 2, 3, 1]}
    with pytest.raises(InputError) as error:
        features(columns)
    for words in ("columns 'ward' hold text", "'day', 'er', 'icu'", 'encode = "one-hot"'):
        assert words in str(error.value)
    one_hot = features(columns, encode="one-hot")
    assert one_hot.names == ("ward=day", "ward=er", "ward=icu", "age")
    assert one_hot.x.tolist() == [[0, 0, 1, 4], [0, 1, 0, 2], [0, 0, 1, 3], [1, 0, 0, 1]]
    assert one_hot.standardized.tolist() == [False] * 3 + [True]
    assert one_hot.notes == ("column 'ward' is encoded one-hot: day, er, icu",)
    ordinal = features(columns, encode="ordinal")
    assert ordinal.x[:, 0].tolist() == [2, 1, 2, 0]
    assert ordinal.notes == ("column 'ward' is encoded from 0: day, er, icu",)


def test_why_a_column_of_numbers_is_text_is_said():
    with pytest.raises(InputError, match="'age': numbers, but for 'unknown' in row 3"):
        features({"age": ["1", "2", "unknown", "4.5e3"]})
    with pytest.raises(InputError, match="'age': '1,5', a decimal comma where a point"):
        features({"age": ["1,5", "2"]})


@pytest.mark.parametrize("encode", ["one-hot", "ordinal"])
def test_numbers_in_text_are_not_encoded(encode):
    with pytest.raises(InputError, match="'age' holds numbers with a decimal comma, as '1,5'"):
        features({"age": ["1,5", "2", None]}, encode=encode)
    ages = [str(k) for k in range(30)] * 2
    with pytest.raises(InputError, match="'age' holds numbers, but for 'n/a' in row 61: correct"):
        features({"age": [*ages, "n/a"]}, encode=encode)
    stages = features({"stage": ["1", "2", "2", "3+", "1", "2"]}, encode=encode)
    assert len(stages.x) == 6


@pytest.mark.parametrize("encode", ["one-hot", "ordinal"])
def test_names_of_rows_are_not_encoded(encode):
    names = [f"p{k}" for k in range(600)]
    with pytest.raises(InputError, match=r"'id' has 600 different values in 600 rows.*identifier"):
        features({"id": names}, encode=encode)
    with pytest.raises(InputError, match=r"looks like an identifier; leave it out of the features"):
        features({"id": [*names[1:], None, "p1"]}, encode=encode)
    assert len(features({"ward": names * 2}, encode=encode).x) == 1200


def test_one_hot_has_a_limit():
    columns = {"zip": [f"{k:04d}" for k in range(1001)] * 2}
    with pytest.raises(InputError, match="column 'zip' has 1,001 different values, as '0000'"):
        features(columns, encode="one-hot")
    assert features(columns, encode="ordinal").x[-1] == 1000


def test_missing_values_are_nan_and_counted():
    columns = {"a": [1, None, 3], "b": [1.0, float("nan"), None], "c": [True, None, False]}
    found = features({**columns, "d": ["x", None, "y"]}, encode="one-hot")
    assert found.missing == {"a": 1, "b": 2, "c": 1, "d": 1}
    assert np.isnan(found.x).tolist() == [
        [False] * 5, [True] * 5, [False, True, False, False, False],
    ]  # fmt: skip
    zero = features({**columns, "d": ["x", None, "y"]}, encode="one-hot", missing="zero")
    assert zero.x[1].tolist() == [0, 0, 0, 0, 0]
    with pytest.raises(InputError, match="of ordinal codes 0 is 'x'"):
        features({"d": ["x", None]}, encode="ordinal", missing="zero")


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.uint64(), pa.decimal128(19, 0)])
def test_large_whole_numbers_stay_apart(kind):
    seconds = [1_700_000_000 + k for k in (5, 0, 3, 7)]
    found = features({"at": pa.array([*seconds, None], pa.int64()).cast(kind)}, missing="mean")
    assert found.x[:4, 0].tolist() == [5, 0, 3, 7]
    assert np.isnan(found.x[4, 0])
    zero = features({"at": pa.array([*seconds, None], pa.int64()).cast(kind)}, missing="zero")
    assert zero.x[4, 0] == -1_700_000_000
    (note,) = found.notes
    assert "column 'at' has whole numbers from 1,700,000,000 to 1,700,000,007" in note
    assert note.endswith("1,700,000,000 is subtracted from each")


def test_what_float32_rounds_is_said():
    (note,) = features({"at": [2**24 + 1, 2**26, 0]}).notes
    assert note.endswith("0 is subtracted from each, and what is left is rounded to 24 bits")
    found = features({"at": [-(2**63), 2**63 - 1]})
    assert found.x[:, 0].tolist() == [-(2.0**63), 2.0**63]
    assert (
        features(
            {"at": [2**25, 2**24], "rate": [0.1, 2.0**30 + 0.1], "x": [2.0**30, float("nan")]}
        ).notes
        == ()
    )


def test_infinite_numbers_are_refused_by_name():
    with pytest.raises(InputError, match=r"column 'b' has 1 value.s. that are infinite .* row 2"):
        features({"a": [1.0, 2.0], "b": [1.0, float("inf")]})
    with pytest.raises(InputError, match="too large for float32"):
        features({"b": [1.0, 1e300]})


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([1, 2], pa.date32()), "columns 'z' .date32.*. are dates or times: turn"),
        (pa.array([1, 2], pa.duration("s")), "are dates or times"),
        (pa.nulls(2), "columns 'z' .null. have no value at all: leave them out"),
        ([b"x", b"y"], "columns 'z' .binary. can't be features: turn"),
        ([{"a": 1}, {"a": 2}], "can't be features"),
        ([["x"], ["y"]], "can't be features"),
    ],
    ids=["date", "duration", "null", "binary", "struct", "lists of text"],
)
def test_other_types_are_refused_by_name(column, words):
    with pytest.raises(InputError, match=words):
        features({"a": [1, 2], "z": column})


def test_lists_of_one_length_are_features():
    pair = pa.array([[1, 2], [3, 4]], pa.list_(pa.uint8()))
    beside = features({"a": [0.5, 1.5], "pair": pair})
    assert beside.x.tolist() == [[0.5, 1, 2], [1.5, 3, 4]]
    assert beside.names == ("a", "pair[0]", "pair[1]")
    assert beside.standardized.tolist() == [True, False, False]
    alone = features({"pair": pair.cast(pa.list_(pa.uint8(), 2))})
    assert alone.x.dtype == np.uint8
    assert alone.standardized is None
    assert features({"pair": pair.cast(pa.list_(pa.int64()))}).x.dtype == np.int32
    images = features({"image": pa.array([[[1, 2], [3, 4]]] * 3)})
    assert images.x.shape == (3, 2, 2)


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ([[1, 2], [3]], "lists of different lengths .'1', '2'."),
        ([[1, 2], None], "lists of different lengths .some are missing."),
        ([[1, None], [3, 4]], "lists with missing numbers"),
        ([[1.0, float("nan")]], "lists with NaN or infinite"),
        ([[2**40]], "lists with whole numbers beyond 32 bits"),
    ],
)
def test_lists_that_do_not_fit(lists, words):
    with pytest.raises(InputError, match=f"column 'z' has {words}"):
        features({"z": lists})


def test_identifiers_are_pointed_at():
    (note,) = features({"id": [10, 11, 15], "age": [3, 1, 2]}).notes
    assert "column 'id' grows from row to row" in note
