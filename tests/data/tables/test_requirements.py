"""Requirements from a table."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import maxfl


def written(folder, text, name="need.csv"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_csv_and_a_parquet_file(tmp_path):
    path = written(tmp_path, "client,value,test\nnorth,0.5,0.6\n007,0.25,\n")
    found = maxfl.requirement_file(path, metric="accuracy", otherwise=maxfl.solo())
    assert found.metric == "accuracy"
    assert found.clients.names == ("north", "007")
    np.testing.assert_allclose(found.clients.judging, [0.5, 0.25])
    np.testing.assert_allclose(found.clients.test, [0.6, np.nan])
    table = pa.table({"client": [1, 2], "value": [3, 4]})
    parquet.write_table(table, tmp_path / "need.parquet")
    found = maxfl.requirement_file(tmp_path / "need.parquet")
    assert found.clients.names == ("1", "2")
    assert found.clients.test.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("client,loss\na,1\n", "has the columns client, loss; expected client, value"),
        ("client,value,other\na,1,2\n", "expected client, value and, if test data"),
        ("client,value\na,1\na,2\n", "client a has 2 rows"),
        ("client,value\n", "requirement.file = .* no rows"),
        ("client,value\n,1\n", "1 rows have no client"),
        ("", "requirement.file = .*is empty"),
        ("client,value\na,much\n", "the column value is string; expected numbers"),
    ],
)
def test_files_that_say_something_else_are_refused(tmp_path, text, words):
    with pytest.raises(maxfl.InputError, match=words):
        maxfl.requirement_file(written(tmp_path, text))
