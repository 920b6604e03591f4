"""Studies that version 0.1 wrote are read under the names of today."""

import pyarrow as pa

from maxfl.paper.legacy import rename_summary, rename_table


def test_a_summary_has_new_names():
    old = {
        "study": "liars", "plan": {"adversary": {"share": 0.1}},
        "data": {"FMNIST, 5 % liars": ["FMNIST, 5 % liars"]},
    }  # fmt: skip
    assert rename_summary(old) == {
        "study": "byzantine", "declaration": {"attack": {"share": 0.1}},
        "data": {"FMNIST, 5 % Byzantine": ["FMNIST, 5 % Byzantine"]},
    }  # fmt: skip


def test_a_table_has_new_columns_and_parts():
    table = rename_table(pa.table({"part": ["FMNIST, 5 % liars"], "participation.start": [10]}))
    assert table.to_pylist() == [{"part": "FMNIST, 5 % Byzantine", "participation.start_round": 10}]
