"""Two histories against each other, in Python."""

import pytest

import maxfl
from maxfl.report.statistics.sides import parse_side, read_sides
from maxfl.report.statistics.two_methods import as_json, compare_two
from support.made_runs import CLIENTS, ROUNDS, make_history, settings_of, with_origin, write_run

MADE = make_history(CLIENTS, ROUNDS, unseen=2)
FEDAVG, MAXFL = (with_origin(MADE, method) for method in (maxfl.fedavg(), maxfl.maxfl()))


def test_two_histories():
    found = maxfl.compare(MAXFL, FEDAVG, clients="seen")
    (case,) = found.cases
    assert (case.a, case.b, case.pair.seeds) == ("MaxFL", "FedAvg", [0])
    text, shown = repr(found), found._repr_html_()
    assert text.startswith("Comparison(A: MaxFL; B: FedAvg, 1 seeds; GM-Appeal, seen: +0.00")
    for words in ("McNemar&#x27;s p, seen", "1.000", "test accuracy, %, seen"):
        assert words in shown
    assert found.to_dict()["comparisons"][0]["differences"][0]["difference"] == 0


def test_folders_give_what_the_command_gives(tmp_path):
    for name in ("maxfl", "fedavg"):
        for seed in range(3):
            history = make_history(8, 2, seed=seed, drift=0.1 * (name == "maxfl"))
            write_run(tmp_path / f"{name}-{seed}", history, settings_of(name), seed, f"f{seed}")
    sides = [f"{tmp_path}/{name}-*" for name in ("maxfl", "fedavg")]
    read = read_sides(*map(parse_side, sides))
    assert maxfl.compare(*sides).to_dict() == as_json(compare_two(read), read.notes)
    assert "3 seeds" in repr(maxfl.compare(*sides, measures=["test_accuracy"]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((FEDAVG, FEDAVG), "^A/FedAvg has FedAvg with seed 0 on the same data as B/FedAvg"),
        ((FEDAVG, 3), "3 is neither a history nor a folder"),
        ((FEDAVG, "nowhere"), "nowhere is no folder"),
    ],
)
def test_what_can_not_be_compared(arguments, words):
    with pytest.raises(maxfl.InputError, match=words):
        maxfl.compare(*arguments)


def test_wrong_words_are_refused():
    for options, words in (
        ({"clients": "some"}, "clients = 'some'"),
        ({"measures": "gm_appeal"}, "expected a list of names"),
        ({"measures": ["speed"]}, "speed"),
    ):
        with pytest.raises(maxfl.InputError, match=words):
            maxfl.compare(MAXFL, FEDAVG, **options)
