"""What a run folder holds for people without this package, and what happens when space is short."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

import maxfl
from maxfl.core.model import count_parameters
from maxfl.report.series import Key, all_series
from maxfl.report.source import read
from maxfl.runs.run import run
from maxfl.runs.tables import Labels
from maxfl.utils.errors import DiskFullError, OutOfMemoryError
from support import resumable
from support.limits import largest_file, out_of_memory
from support.made_runs import settings_of
from support.small import MODEL, PAIR, SMALL, every_third, simulation, train


@pytest.fixture(scope="module")
def history():
    """Two configurations, evaluated after every third round."""
    return train(**every_third(*PAIR))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the same run, whose configurations are called two seeds of one method."""
    values = [{"seed": 0}, {"seed": 4}]
    labels = Labels(values=values, config=[settings_of("maxfl") | chosen for chosen in values])
    return run(simulation(**every_third(*PAIR)), tmp_path_factory.mktemp("run"), labels=labels)


def test_the_folder_holds_the_history_in_open_formats(history, folder):
    assert sorted(p.name for p in folder.iterdir()) == [
        "clients.parquet", "experiment.json", "history.parquet", "metrics.parquet",
        "model-card.md", "model.safetensors", "partition.parquet", "rounds.parquet", "summary.json",
    ]  # fmt: skip
    table = pq.read_table(folder / "history.parquet").to_pydict()
    assert len(table["round"]) == 2 * 4 * SMALL.clients
    rows = list(zip(table["configuration"], table["round"], table["client"], strict=True))
    assert rows.count((1, 6, 2)) == 1
    at, evaluation = rows.index((1, 6, 2)), history.evaluation
    for column, values in (
        ("judging_loss", evaluation.judging_loss), ("test_loss", evaluation.test_loss),
        ("test_accuracy", evaluation.test_metrics[0]), ("weight", evaluation.weight),
        ("willing", evaluation.willing), ("sampled", history.sampled()),
        ("participated", history.participated()),
        ("satisfied_test", history.satisfied("test")),
    ):  # fmt: skip
        assert table[column][at] == values[1, 2, 2]
    rounds, cohorts = pq.read_table(folder / "rounds.parquet").to_pydict(), history.cohorts
    np.testing.assert_array_equal(rounds["client"], cohorts.client_id[cohorts.sampled])
    np.testing.assert_array_equal(rounds["participated"], cohorts.participated[cohorts.sampled])
    np.testing.assert_array_equal(rounds["round"][:4], [1, 1, 1, 2])
    card = (folder / "model-card.md").read_text()
    assert f"Its parameters: {sum(count_parameters(MODEL)):,} trained. Its loss: `cross-" in card
    clients = pq.read_table(folder / "clients.parquet").to_pydict()
    np.testing.assert_array_equal(clients["train_samples"][: SMALL.clients], SMALL.train_sizes)
    np.testing.assert_array_equal(clients["requirement"], history.thresholds.judging.ravel())
    assert clients["name"][:3] == ["0", "1", "2"]


def test_the_model_is_in_an_open_format(history, folder):
    tensors = load_file(folder / "model.safetensors")
    assert sorted(tensors)[:2] == ["0.bias", "0.weight"]
    np.testing.assert_array_equal(tensors["2.bias"], history.params[2].bias)


def test_the_summary_agrees_with_the_history(history, folder):
    summary = json.loads((folder / "summary.json").read_text())
    entry = summary["configurations"][1]
    assert entry["values"] == {"seed": 4}
    appeal = entry["unseen"]["gm_appeal"]["literal"]
    assert appeal == pytest.approx(history.gm_appeal("unseen", "literal")[1, -1])
    accuracy = entry["seen"]["test_accuracy"]
    assert accuracy == pytest.approx(history.test_metric("seen")[1, -1], abs=1e-6)


def test_curves_from_the_files_agree_with_the_history(history, folder):
    source = read([folder])
    (method,) = source.methods("")
    series = all_series(source)
    appeal = series[Key("", method, "seen", "global", "gm_appeal")]
    accuracy = series[Key("", method, "unseen", "global", "test_accuracy")]
    np.testing.assert_array_equal(appeal.rounds, history.rounds)
    np.testing.assert_allclose(appeal.values, history.gm_appeal("seen"), atol=1e-6)
    np.testing.assert_allclose(accuracy.values, history.test_metric("unseen"), atol=1e-6)


def test_labels_of_other_configurations_are_refused(tmp_path):
    for labels in (Labels(indices=[0, 1, 2]), Labels(values=[{}])):
        with pytest.raises(maxfl.InputError, match="entries for 2 configurations"):
            run(resumable.simulation(), tmp_path / "run", labels=labels)
    assert not (tmp_path / "run").exists()


def test_what_will_not_fit_is_not_begun(tmp_path, monkeypatch):
    monkeypatch.setattr("maxfl.utils.disk_space.free_space", lambda _: 100)
    with pytest.raises(DiskFullError, match=r"100 bytes are free: choose .* lower training.rounds"):
        run(resumable.simulation(), tmp_path / "run")


@pytest.mark.processes
def test_a_full_disk_keeps_what_is_done(tmp_path):
    """The second block, with a round more than the first, does not fit any more."""
    folder, sizes = tmp_path / "run", []

    def measure(stage, *_):
        if stage == "rounds":
            blocks = sorted((tmp_path / "whole/checkpoint").glob("block-*"))
            sizes.append(blocks[-1].stat().st_size)

    whole = resumable.results(run(resumable.simulation(), tmp_path / "whole", progress=measure))
    assert sizes[0] < sizes[1]
    words = r"no room is left in .*make room.*--resume.*--out"
    with largest_file(sizes[0]), pytest.raises(DiskFullError, match=words):
        run(resumable.simulation(), folder)
    assert json.loads((folder / "checkpoint/checkpoint.json").read_text())["blocks"] == 1
    run(resumable.simulation(), folder, resume=True)
    assert resumable.results(folder) == whole


@pytest.mark.processes
def test_too_little_memory_keeps_what_is_done(tmp_path):
    with pytest.raises(OutOfMemoryError, match=r"keeps what is done: add --resume"):
        run(resumable.simulation(), tmp_path / "run", progress=out_of_memory)
    assert (tmp_path / "run/checkpoint/checkpoint.json").exists()


@pytest.mark.parametrize(
    ("folder", "options", "words"),
    [
        (None, {}, "can't use None as a folder"),
        ("a\0b", {}, "as a folder: "),
        ("x" * 300, {}, "as a folder: "),
        ("run", {"labels": {"a": 1}}, r"labels = .* expected maxfl\.Labels"),
        ("run", {"progress": 3}, "progress = 3: expected a function"),
        ("run", {"trackers": ["tensorboard"]}, "'tensorboard' is none; maxfl.tracker"),
    ],
)
def test_arguments_of_the_wrong_kind_leave_nothing(tmp_path, monkeypatch, folder, options, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(maxfl.InputError, match=words):
        run(resumable.simulation(), folder, **options)
    assert not any(tmp_path.iterdir())
