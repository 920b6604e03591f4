"""Folders that version 0.1 wrote, with its names of columns, metrics and settings, are read."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maxfl.report.legacy import column
from maxfl.report.model_card.card import cards
from maxfl.report.source import has_results, read, read_table
from maxfl.report.write import write_report
from maxfl.runs.tables import to_parquet
from maxfl.runs.watch import read_status
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_json, write_json
from support.made_runs import make_history, settings_of, write_run

COLUMNS = {
    "participated": "took_part", "satisfied_test": "appeals_held_out",
    "satisfied_judging": "appeals_training", "satisfied_literal": "appeals_literal",
    "judging_loss": "train_loss", "solo_judging_loss": "solo_train_loss",
}  # fmt: skip
NEW = {
    "participation": {"rule": "opt-out", "start_round": 1},
    "attack": {"fraction": 0.2, "loss_inflation": 5.0, "noise_std": 0.1},
    "server": {"aggregator": "trimmed-mean", "trim_fraction": 0.2},
}
OLD = {
    "participation": {"rule": "opt-out", "start": 1},
    "adversary": {"share": 0.2, "inflation": 5.0, "noise": 0.1},
    "server": {"aggregation": "trimmed-mean", "trim": 0.2},
}


def as_version_0_1(folder):
    """Give the tables of a run folder the names that version 0.1 used."""
    for name in ("history", "rounds", "metrics"):
        path = folder / f"{name}.parquet"
        table = pq.read_table(path)
        table = table.rename_columns([COLUMNS.get(n, n) for n in table.column_names])
        path.write_bytes(to_parquet(table))
    return folder


@pytest.fixture
def both(tmp_path):
    """The same run as this version writes it, and as version 0.1 did."""
    history = make_history(10, 3, unseen=2, drift=0.3, byzantine=(1, 4))
    settings = settings_of("maxfl", temperature=0.5)
    new = write_run(tmp_path / "new/run", history, settings | NEW)
    old = as_version_0_1(write_run(tmp_path / "old/run", history, settings | OLD))
    return new, old


def test_the_report_of_an_old_folder_is_that_of_a_new_one(both, tmp_path):
    reports = [
        write_report([run], tmp_path / f"report-{i}", figures=False).folder
        for i, run in enumerate(both)
    ]
    names = [sorted(p.relative_to(r) for p in r.rglob("*.*")) for r in reports]
    assert names[0] == names[1]
    for name in names[0]:
        if name.name != "report.json":  # which says what it was made from
            assert (reports[0] / name).read_bytes() == (reports[1] / name).read_bytes(), name


@pytest.mark.parametrize("whose", ["", "personal_", "solo_"])
def test_what_clients_judge_by_was_called_training(whose):
    """The loss, and the metric that a requirement is about; sizes are still those of training."""
    assert column(f"{whose}train_loss") == f"{whose}judging_loss"
    assert column(f"{whose}train_macro_f1") == f"{whose}judging_macro_f1"
    assert column("train_samples") == "train_samples"
    assert column("test_accuracy") == "test_accuracy"


def test_an_old_folder_is_watched(both):
    new, old = both
    for run in both:  # of the final figures, made runs have those of the seen clients alone
        summary = read_json(run / "summary.json")
        figures = {"gm_appeal": {"held-out": 0.5}, "test_accuracy": 0.25, "willing": 1.0}
        summary["configurations"][0]["seen"] = figures
        write_json(run / "summary.json", summary)
    assert read_status(old) == read_status(new)


def test_an_unfinished_folder_is_sent_to_the_version_that_began_it(tmp_path):
    old = {"maxfl": "0.1.0", "federation": "x"}
    words = "written by maxfl 0.1.0: finish it with that version"
    for folder, experiment in (
        (tmp_path / "run", old),
        (tmp_path / "sweep", {"configurations": {"0": {}}, "groups": {"0": old}}),
    ):
        folder.mkdir()
        write_json(folder / "experiment.json", experiment)
        with pytest.raises(InputError, match=words):
            read([folder])
        assert read_status(folder).how_to_finish == words
    assert not has_results(tmp_path / "sweep")


def test_an_old_sweep_is_watched_under_new_names(both):
    summary = read_json(both[1] / "summary.json")
    figures = {"gm_appeal": {"held-out": 0.5}, "test_accuracy": 0.25, "willing": 1.0}
    summary["configurations"][0] |= {"values": {"participation.start": 1}, "seen": figures}
    write_json(both[1] / "summary.json", summary)
    assert read_status(both[1]).rows[0][0] == "participation start round 1"


def test_counts_of_all_clients_have_new_names(both):
    path = both[1] / "metrics.parquet"
    table = pq.read_table(path)
    old = ("survey_asked", "survey_willing", "survey_took_part", "survey_willing_share")
    rows = table.slice(0, len(old))
    rows = rows.set_column(
        rows.column_names.index("metric"), "metric", pa.array(old).dictionary_encode()
    )
    path.write_bytes(to_parquet(pa.concat_tables([table, rows], promote_options="permissive")))
    found = read_table(path)["metric"].to_pylist()[-len(old) :]
    assert found == ["all_responded", "all_willing", "all_participated", "all_willing_share"]
    assert "all_willing_share" in read([both[1]]).metrics["metric"].to_pylist()


def test_answers_of_an_old_federation_on_flower_are_counted(both):
    summary = read_json(both[1] / "summary.json")
    answers = {"asked": 12, "took_part": 7, "declined": 3, "failed": 2, "rejected": 0}
    summary["configurations"][0]["answers"] = answers
    write_json(both[1] / "summary.json", summary)
    text = cards(read([both[1]]))
    assert "clients were sampled 12 times: 7 times they participated, 3 times they declined" in text
