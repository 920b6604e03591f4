"""A history written into a folder is a finished run."""

import json
import pickle

import maxfl
from maxfl.report.series import all_series
from maxfl.report.source import read
from maxfl.report.statistics.compare import Results, read_traces
from maxfl.report.verdict import verdicts
from maxfl.runs.results import write_history
from support.made_runs import CLIENTS, ROUNDS, make_history, with_origin

MADE = make_history(CLIENTS, ROUNDS, unseen=2)


def test_a_history_becomes_a_run_folder(tmp_path):
    folder = write_history(with_origin(MADE, maxfl.maxfl(0.3), seed=3), tmp_path / "one")
    (found,) = read([folder]).configurations
    assert (found.method, found.seed, found.data) == ("MaxFL", 3, "own data")
    assert found.settings["algorithm.temperature"] == 0.3
    assert "algorithm.epsilon" not in found.settings, "it is the method's default"
    assert found.settings["model"] == "mlp 4-6-5-3, 83 parameters, cross-entropy"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["rounds"] == ROUNDS
    assert summary["configurations"][0]["model"]["parameters"]["trained"] == 83


def test_what_clients_judge_by_makes_other_requirements_and_no_other_data(tmp_path):
    """Then two runs are paired, and it is said in what their requirements differ."""
    folders = []
    for judge, drift in (("held-out", 0.3), ("training", 0.0)):
        history = make_history(CLIENTS, ROUNDS, drift=drift, seed=int(drift > 0))
        made = with_origin(history, maxfl.maxfl(), requirement=maxfl.solo(judge=judge))
        folders.append(write_history(made, tmp_path / judge))
    source = read(folders)
    assert source.cases == [""]
    assert len({found.digest for found in source.configurations}) == 1
    assert [found.entry["own_judging_part"] for found in source.configurations] == [False, False]
    series = all_series(source)
    (words,) = verdicts(Results(source, series, read_traces(source, series)))
    assert "clients do not require the same of MaxFL, requirement judge" in words
    assert "(requirement.judge, requirement.judge_fraction differ)" in words


def test_methods_are_named_by_what_was_chosen(tmp_path):
    methods = maxfl.fedavg(), maxfl.maxfl(), maxfl.maxfl(0.3), maxfl.fedavg()._replace(name="own")
    folders = [
        write_history(with_origin(MADE, method), tmp_path / str(i))
        for i, method in enumerate(methods)
    ]
    names = [found.method for found in read(folders).configurations]
    assert names[:3] == ["FedAvg", "MaxFL", "MaxFL, temperature 0.3"]
    assert names[3].startswith("own")


def test_a_pickled_history_knows_what_it_is_of(tmp_path):
    history = with_origin(MADE, maxfl.maxfl())
    again = pickle.loads(pickle.dumps(history))
    assert repr(again) == repr(history)
    assert again.to_arrow().equals(history.to_arrow())
    write_history(again, tmp_path / "again")
