"""What a history says, and what a run folder holds for people without this package."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

import maxfl
from maxfl.engine.history import READINGS
from maxfl.report.series import Key, all_series
from maxfl.report.source import read
from maxfl.runs.run import run
from support import oracle

TRAINING = maxfl.Training(
    rounds=7, cohort=5, local_steps=3, batch_size=4, local_lr=0.2, evaluate_every=3, block=6
)


@pytest.fixture(scope="module")
def finished(small, small_model, tmp_path_factory):
    """A history of two seeds, and the folder of the same run."""
    options = {
        "participation": maxfl.opt_out(3),
        "requirement": maxfl.solo(1.5, 10),
        "seed": [0, 4],
    }
    simulation = maxfl.Simulation(small, small_model, maxfl.maxfl(), TRAINING, **options)
    history = maxfl.simulate(small, small_model, maxfl.maxfl(), TRAINING, **options)
    folder = tmp_path_factory.mktemp("results") / "run"
    values = [{"seed": 0}, {"seed": 4}]
    return history, run(simulation, folder, values=values)


def test_three_readings_of_appeal(finished, small):
    history, _ = finished
    e, seen = history.evaluation, slice(0, small.seen)
    pairs = {
        "held-out": (e.test_loss, history.thresholds.test),
        "training": (e.train_loss, history.thresholds.train),
        "literal": (e.test_loss, history.thresholds.train),
    }
    assert pairs.keys() == READINGS.keys()
    for reading, (loss, bar) in pairs.items():
        for c in range(2):
            expected = oracle.gm_appeal(loss[c, -1, seen], bar[c, seen])
            assert history.gm_appeal("seen", reading)[c, -1] == pytest.approx(expected)


def test_preferred_accuracy(finished, small):
    history, _ = finished
    unseen = slice(small.seen, None)
    satisfied = history.satisfied("training")[0, -1, unseen]
    expected = oracle.preferred_accuracy(
        history.evaluation.test_accuracy[0, -1, unseen],
        history.solo.test_accuracy[0, unseen],
        satisfied,
    )
    ours = history.preferred_accuracy("unseen", "training")[0, -1]
    assert ours == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("which", ["sampled", "took_part"])
def test_flags_mark_the_last_rounds_cohort(finished, which):
    history, _ = finished
    flags = getattr(history, which)()
    assert not flags[:, 0].any()
    for e, done in enumerate(history.rounds[1:], 1):
        for c in range(2):
            there = getattr(history.asked, which)[c, done - 1]
            expected = set(history.asked.client[c, done - 1][there])
            assert set(np.flatnonzero(flags[c, e])) == expected


def test_a_group_without_clients_has_no_mean(finished):
    history, _ = finished
    assert np.isnan(history._replace(is_seen=np.ones(8, bool)).accuracy("unseen")).all()


def test_the_folder_holds_the_history_in_open_formats(finished, small):
    history, folder = finished
    assert sorted(p.name for p in folder.iterdir()) == [
        "clients.parquet", "experiment.json", "history.parquet", "metrics.parquet",
        "model-card.md", "model.safetensors", "partition.parquet", "rounds.parquet", "summary.json",
    ]  # fmt: skip
    table = pq.read_table(folder / "history.parquet").to_pydict()
    assert len(table["round"]) == 2 * 4 * small.clients
    at = [
        i for i in range(len(table["round"]))
        if (table["configuration"][i], table["round"][i], table["client"][i]) == (1, 6, 2)
    ]  # fmt: skip
    assert len(at) == 1
    e = history.evaluation
    for column, values in (
        ("train_loss", e.train_loss), ("test_loss", e.test_loss), ("willing", e.willing),
        ("test_accuracy", e.test_accuracy), ("weight", e.weight), ("sampled", history.sampled()),
        ("took_part", history.took_part()),
        ("appeals_held_out", history.satisfied("held-out")),
    ):  # fmt: skip
        assert table[column][at[0]] == values[1, 2, 2]
    rounds = pq.read_table(folder / "rounds.parquet").to_pydict()
    sampled = history.asked.sampled
    np.testing.assert_array_equal(rounds["client"], history.asked.client[sampled])
    np.testing.assert_array_equal(rounds["took_part"], history.asked.took_part[sampled])
    np.testing.assert_array_equal(rounds["round"][:6], [1, 1, 1, 1, 1, 2])
    clients = pq.read_table(folder / "clients.parquet").to_pydict()
    np.testing.assert_array_equal(clients["train_samples"][: small.clients], small.train_sizes)
    np.testing.assert_array_equal(clients["requirement"], history.thresholds.train.ravel())
    assert clients["name"][:3] == ["0", "1", "2"]


def test_words_that_mean_nothing_are_refused(finished):
    history, _ = finished
    with pytest.raises(maxfl.InputError, match="reading = 'foo': want one of held-out, training"):
        history.gm_appeal("seen", "foo")
    with pytest.raises(maxfl.InputError, match="clients = 'foo': want one of seen, unseen, all"):
        history.accuracy("foo")


def test_the_model_is_in_an_open_format(finished):
    history, folder = finished
    tensors = load_file(folder / "model.safetensors")
    assert sorted(tensors)[:2] == ["0.bias", "0.weight"]
    np.testing.assert_array_equal(tensors["2.bias"], history.params[2].bias)


def test_the_summary_agrees_with_the_history(finished):
    history, folder = finished
    summary = json.loads((folder / "summary.json").read_text())
    entry = summary["configurations"][1]
    assert entry["values"] == {"seed": 4}
    appeal = entry["unseen"]["gm_appeal"]["literal"]
    assert appeal == pytest.approx(history.gm_appeal("unseen", "literal")[1, -1])
    accuracy = entry["seen"]["test_accuracy"]
    assert accuracy == pytest.approx(history.accuracy("seen")[1, -1], abs=1e-6)


def test_curves_from_the_files_agree_with_the_history(finished):
    history, folder = finished
    source = read([folder])
    (method,) = source.methods("")
    series = all_series(source)
    appeal = series[Key("", method, "seen", "global", "gm_appeal")]
    accuracy = series[Key("", method, "unseen", "global", "test_accuracy")]
    np.testing.assert_array_equal(appeal.rounds, history.rounds)
    np.testing.assert_allclose(appeal.values, history.gm_appeal("seen"), atol=1e-6)
    np.testing.assert_allclose(accuracy.values, history.accuracy("unseen"), atol=1e-6)
