"""Two methods in full, by hand from the tables that were written."""

import json

import numpy as np
import pytest

from maxfl.paper.results import reference_run
from maxfl.report.statistics.mcnemar import exact_mcnemar
from maxfl.report.statistics.sides import parse_side, read_sides
from maxfl.report.statistics.two_methods import as_json, compare_two
from maxfl.utils.errors import InputError
from support.made_runs import REGRESSION, make_history, settings_of, write_run

SEEDS = (0, 1, 2)


def history_of(name, seed, **more):
    drift, personal = {"maxfl": (0.3, None), "ditto": (0.2, 0.8)}[name]
    return make_history(12, 3, unseen=2, drift=drift, seed=seed, personal=personal, **more)


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two-methods")
    for name in ("maxfl", "ditto"):
        for seed in SEEDS:
            history = history_of(name, seed, metrics=REGRESSION)
            write_run(folder / f"{name}-{seed}", history, settings_of(name), seed, f"f{seed}")
    return read_sides(parse_side(f"{folder}/maxfl-*"), parse_side(f"{folder}/ditto-*"))


def test_by_hand(sides):
    (one,) = compare_two(sides)
    assert (one.a, one.b) == ("MaxFL", "Ditto (personal models)")
    assert [(d.measure.key, d.clients) for d in one.differences] == [
        (key, clients)
        for key in ("gm_appeal", "test_mae", "preferred_mae")
        for clients in ("seen", "unseen")
    ]
    appeal, only = [], []
    for seed in SEEDS:
        a, b = history_of("maxfl", seed), history_of("ditto", seed)
        x = a.satisfied()[0, -1, :10]
        y = b.satisfied(model="personal")[0, -1, :10]
        appeal.append(x.mean() - y.mean())
        only.append(((x & ~y).sum(), (y & ~x).sum()))
    first = one.differences[0]
    assert first.interval.mean == pytest.approx(np.mean(appeal))
    assert first.interval.low <= first.interval.mean <= first.interval.high
    assert first.resampled == "seeds and clients"
    assert one.satisfied["seen"].by_seed == [exact_mcnemar(*map(int, pair)) for pair in only]
    assert one.satisfied["seen"].all_seeds == exact_mcnemar(*map(int, np.sum(only, axis=0)))


def test_lower_is_better_where_the_metric_says_so(sides):
    (one,) = compare_two(sides, ["test_mae", "test_rmse", "test_loss"], ["seen"])
    for found in one.differences:
        assert found.interval.low > 0
        assert found.word == "behind"  # MaxFL's errors are larger
    (own,) = compare_two(sides, ["test_loss"], ["seen"], only_global=True)
    assert (own.a, own.b) == ("MaxFL", "Ditto")
    assert own.differences[0].word == "ahead"


def test_json_holds_all_and_no_nan(sides):
    text = json.dumps(as_json(compare_two(sides), ["a note"]), allow_nan=False)
    (one,) = json.loads(text)["comparisons"]
    assert one["seeds"] == list(SEEDS)
    assert one["mcnemar"]["seen"]["by_seed"].keys() == {"0", "1", "2"}
    first = one["differences"][0]
    assert first["low"] <= first["difference"] <= first["high"]
    assert len(first["a_by_seed"]) == 3


def test_an_unknown_measure_is_refused(sides):
    with pytest.raises(InputError, match=r"--measure = 'mae': expected one of gm_appeal, test_mae"):
        compare_two(sides, ["mae"])


def test_means_alone_are_compared_over_seeds():
    folder = reference_run("synthetic")
    sides = read_sides(parse_side(f"{folder}:FedAvg"), parse_side(f"{folder}:FedProx"))
    for one in compare_two(sides, ["gm_appeal"], ["seen"]):
        assert one.satisfied == {}
        assert {d.resampled for d in one.differences} <= {"seeds", ""}
