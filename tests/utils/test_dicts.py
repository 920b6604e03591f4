"""Nested tables, and in what two of them differ."""

from maxfl.utils.dicts import differences, flatten, written_first


def test_tables_are_flattened_to_dotted_keys():
    assert flatten({"seed": 1, "data": {"alpha": 0.5, "deep": {"er": [1, 2]}}}) == {
        "seed": 1, "data.alpha": 0.5, "data.deep.er": [1, 2],
    }  # fmt: skip


def test_differences_are_named():
    there, here = {"a": 1, "b": {"c": 2}, "same": 3}, {"a": 1, "b": {"c": 4}, "same": 3, "new": 5}
    assert differences(there, here) == ["b.c (2 there, 4 here)", "new (None there, 5 here)"]
    (line,) = differences({"a": "x" * 100}, {"a": "y"}, names=("before", "now"))
    assert line == f"a ({'x' * 57}... before, y now)"
    assert differences({"model": "ab" * 32}, {"model": "cd" * 32}) == [
        "model (SHA-256 abababab... there, SHA-256 cdcdcdcd... here)"
    ]


def test_what_the_user_wrote_comes_first():
    assert written_first(["seed (1, 2)", "config.seed (1, 2)"]) == ["config.seed (1, 2)"]
    assert written_first(["seed (1, 2)"]) == ["seed (1, 2)"]
