"""``maxfl compare``, and what stands below the table of a sweep."""

import json

import pytest

from maxfl.cli.compare import show_standing
from maxfl.utils.files import write_json
from support.made_runs import REGRESSION, make_history, settings_of, write_run


@pytest.fixture
def place(tmp_path):
    for name, drift, personal in (("fedavg", 0.1, None), ("maxfl", 0.5, None), ("ditto", 0.1, 2)):
        for seed in range(2):
            history = make_history(12, 3, unseen=2, drift=drift, seed=seed, personal=personal)
            write_run(tmp_path / f"{name}-{seed}", history, settings_of(name), seed, f"f{seed}")
    return tmp_path


def test_a_table_and_what_it_tells(place, maxfl):
    text = maxfl("compare", f"{place}/maxfl-*", f"{place}/fedavg-*", "--clients", "seen")
    assert "A: MaxFL" in text
    assert "ahead" in text
    assert "satisfied by A alone and 0 by B alone: McNemar's p" in text
    assert "The interval is by a bootstrap over seeds and clients." in text
    assert "2 seeds tell little" in text
    assert "unseen" not in text


def test_one_seed_says_nothing_of_methods(place, maxfl):
    text = maxfl("compare", place / "maxfl-0", place / "fedavg-0")
    assert "ahead" not in text
    assert "bootstrap over clients." in text
    assert "One seed tells of these two models, not of the methods" in text


def test_json_is_for_machines(place, maxfl):
    text = maxfl("compare", place / "ditto-0", f"{place}/fedavg-*", "--json")
    found = json.loads(text)
    assert found["comparisons"][0]["a"] == "Ditto (personal models)"
    assert found["notes"] == ["Left out: seed 1 of FedAvg alone"]


def test_mistakes_end_in_a_sentence(place, maxfl):
    text = maxfl("compare", place / "maxfl-0", place / "gone", code=2)
    assert "is no folder" in text
    text = maxfl("compare", place / "maxfl-0", place / "fedavg-0", "--clients", "all", code=2)
    assert "--clients = 'all': expected one of both, seen, unseen" in text


def test_other_demands_are_said(place, maxfl):
    history = make_history(12, 3, unseen=2, drift=0.5)
    thresholds = type(history.thresholds)(*(2 * t for t in history.thresholds))
    settings = {**settings_of("maxfl"), "requirement": {"multiple": 2.0}}
    write_run(place / "easy", history._replace(thresholds=thresholds), settings, 0, "f0")
    text = " ".join(maxfl("compare", place / "easy", place / "fedavg-0").split())
    assert "Clients do not require the same of MaxFL" in text
    assert "(requirement.multiple differs)" in text
    assert "McNemar" not in text


def test_below_the_table_of_a_sweep(place, capsys):
    sweep = place / "sweep"
    (sweep / "groups").mkdir(parents=True)
    for i, run in enumerate(sorted(place.glob("*-[01]"))):
        run.rename(sweep / "groups" / f"{i:04d}")
    write_json(sweep / "experiment.json", {"configurations": dict.fromkeys("012345")})
    show_standing(sweep)
    text = " ".join(capsys.readouterr().out.split())
    assert "A: Ditto (personal models); seen clients, A − B (95 % interval)" in text
    assert "Ditto (personal models) and MaxFL (one global model) are not told apart" in text


def test_a_sweep_that_can_not_be_compared_is_shown_all_the_same(tmp_path, capsys):
    groups = tmp_path / "groups"
    write_run(groups / "0", make_history(4, 1), settings_of("maxfl"))
    write_run(groups / "1", make_history(4, 1, metrics=REGRESSION), settings_of("fedavg"))
    write_json(tmp_path / "experiment.json", {"configurations": {"0": {}, "1": {}}})
    show_standing(tmp_path)
    assert "Not compared:" in capsys.readouterr().out
