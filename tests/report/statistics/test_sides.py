"""How A and B are named, and what can't be compared."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from maxfl.report.statistics.pairing import Both, Pair, clients_of, have_same_clients
from maxfl.report.statistics.sides import parse_side, read_sides
from maxfl.utils.errors import InputError
from support.made_runs import REGRESSION, make_history, settings_of, started, write_run


def made(folder, name, seed=0, digest=None, data=None, metrics=None):
    settings = settings_of(name)
    settings["data"] = data or settings["data"]
    more = {"metrics": metrics} if metrics else {}
    history = make_history(8, 2, seed=seed, **more)
    return write_run(folder / f"{name}-{seed}", history, settings, seed, digest or f"f{seed}")


@pytest.fixture
def place(tmp_path):
    for name in ("maxfl", "fedavg"):
        for seed in (0, 1):
            made(tmp_path, name, seed)
    return tmp_path


def sides(a, b):
    return read_sides(parse_side(str(a)), parse_side(str(b)))


def test_folders_patterns_and_methods(place):
    (pair,) = sides(place / "maxfl-1", place / "fedavg-1").pairs
    assert pair == ("", "MaxFL", "FedAvg", [1], False)
    (pair,) = sides(place / "maxfl-*", place / "fedavg-[01]").pairs
    assert pair == ("", "MaxFL", "FedAvg", [0, 1], False)
    for name in ("fedavg", "FedAvg", "FEDAVG"):
        found = sides(f"{place}/*-0:{name}", f"{place}/*-0:MaxFL")
        assert found.pairs == [("", "FedAvg", "MaxFL", [0], False)]
    assert {c.method for c in found.source.configurations} == {"FedAvg", "MaxFL"}
    assert found.notes == []


def test_own_code_has_colons_and_so_may_folders(tmp_path):
    for name in ("mym:mym", "mym:other", "fedavg"):
        made(tmp_path, name)
    both = tmp_path / "both:0"
    both.mkdir()
    for name in ("mym:mym-0", "mym:other-0"):
        (tmp_path / name).rename(both / name)
    pattern = f"{both}/*"
    assert parse_side(f"{both}:mym:mym") == (f"{both}:mym:mym", (both,), "mym:mym")
    for asked in (pattern, f"{pattern}:mym:mmy"):
        with pytest.raises(InputError, match=r"holds 2 methods|has no method 'mym:mmy'") as error:
            sides(asked, tmp_path / "fedavg-0")
    assert str(error.value).startswith(f"{pattern} has no method")
    with pytest.raises(InputError, match="Name one") as error:
        sides(pattern, tmp_path / "fedavg-0")
    advice = str(error.value).split('"')[1]
    for named in (advice, f"{pattern}:mym:mym"):
        (pair,) = sides(named, tmp_path / "fedavg-0").pairs
        assert pair.second == "FedAvg"
    assert parse_side("nowhere:mym:mym") == ("nowhere:mym:mym", (Path("nowhere"),), "mym:mym")


def test_only_what_was_named_is_compared(place):
    """B's folders have more of A's method, which is not A."""
    found = sides(place / "maxfl-0", f"{place}/*:fedavg")
    assert found.pairs == [("", "MaxFL", "FedAvg", [0], False)]
    assert set(found.source.metrics["seed"].to_pylist()) == {0, 1}
    assert len(found.source.of("", "MaxFL")) == 1
    assert found.notes == ["Left out: seed 1 of FedAvg alone"]


def test_one_federation_for_all_seeds(tmp_path):
    for name in ("maxfl", "fedavg"):
        for seed in (0, 1):
            made(tmp_path, name, seed, "the same")
    (pair,) = sides(tmp_path / "maxfl-*", tmp_path / "fedavg-*").pairs
    assert pair.is_one_federation


def clients(names, sizes):
    sizes = np.array(sizes)
    return SimpleNamespace(name=np.array(names), train_samples=sizes, test_samples=sizes)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (clients(["a", "b"], [5, 5]), clients(["b", "a"], [5, 5]), True),
        (clients(["a", "b"], [5, 5]), clients(["a", "c"], [5, 5]), False),
        (clients(["a", "b"], [5, 6]), clients(["a", "b"], [6, 5]), False),
        (clients([0, 1], [5, 6]), clients([1, 0], [6, 5]), True),
        (clients([0, 1], [5, 6]), clients([0, 1], [6, 5]), False),
        (clients([0, 1], [5, 5]), clients([0, 1], [5, 5]), False),
    ],
)
def test_the_datas_own_clients_are_the_same_however_a_seed_splits_them(first, second, same):
    assert have_same_clients([first, second]) == same
    assert not have_same_clients([first])


def test_clients_are_told_apart_by_name():
    """Which clients are unseen differs by seed, and so do their numbers."""
    pair = Pair("", "A", "B", [0, 1])
    known = [
        Both(clients(names, [5, 5, 5]), None, np.array(group))
        for names, group in (
            (["north", "south", "west"], [True, True, False]),
            (["west", "south", "north"], [True, False, True]),
        )
    ]
    assert [who.tolist() for who in clients_of(pair, known)] == [[0, 1], [2, 0]]
    numbered = [both._replace(a=clients([0, 1, 2], [5, 5, 5])) for both in known]
    assert clients_of(pair, numbered) is None
    one = pair._replace(is_one_federation=True)
    assert [who.tolist() for who in clients_of(one, numbered)] == [[0, 1], [0, 2]]


def refused(a, b, words):
    with pytest.raises(InputError, match=words):
        sides(a, b)


def test_what_can_not_be_named(place):
    refused(place / "nothing", place / "maxfl-0", "is no folder: name that of a run, a sweep")
    refused(place, place / "maxfl-0", "holds no run: experiment.json is not there")
    refused(f"{place}/*-7", place / "maxfl-0", "there is no folder of that pattern")
    refused(f"{place}/*-0", place / "maxfl-0", r"holds 2 methods: FedAvg; MaxFL. Name one, as \"")
    refused(
        f"{place}/*-0:FedAvq", place / "maxfl-0",
        re.escape("has no method 'FedAvq'. It has: FedAvg; MaxFL. Did you mean 'FedAvg'?"),
    )  # fmt: skip
    refused(place / "maxfl-0", place / "maxfl-1", "are both MaxFL: name two methods")
    refused(place / "maxfl-0", place / "maxfl-0", "are both MaxFL")


def test_what_can_not_be_paired(place):
    refused(
        place / "maxfl-0", place / "fedavg-1",
        "no seed with the same clients: seed 0 of MaxFL alone; seed 1 of FedAvg alone. Run both",
    )  # fmt: skip
    other = made(place / "other", "fedavg", 0, "other clients")
    refused(place / "maxfl-0", other, "seed 0, in which they had different clients")
    elsewhere = made(place / "elsewhere", "fedavg", 0, data={"alpha": 1.0})
    refused(place / "maxfl-0", elsewhere, "ran on other data: data.alpha is 0.5 and 1.0")


def test_other_metrics_and_unfinished_runs(place):
    other = made(place / "other", "fedavg", metrics=REGRESSION)
    refused(place / "maxfl-0", other, "measures accuracy .* these can't be compared")
    started(place / "unfinished")
    refused(place / "maxfl-0", place / "unfinished", r"is not finished \(add --resume to go on\)")
