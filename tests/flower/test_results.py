"""Figures and tables of a federation, honest about what it does not know."""

import json

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import Context, Error, Message, RecordDict
from safetensors.numpy import load_file

from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.flower import MaxFL
from maxfl.flower.results import metric_series
from maxfl.report.model_card.card import cards
from maxfl.report.source import read
from maxfl.report.traces import read_trace
from maxfl.report.write import write_report
from maxfl.utils.errors import InputError
from support.flower_nodes import START, Nodes, arrays, make_app
from support.flower_runs import distance, distance_of, federation, run, stopped

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def test_the_final_model_and_the_figures(tmp_path):
    result = run(tmp_path / "run", federation(test=(distance(2.0), 1.5)), collect_losses=True)
    model = load_file(tmp_path / "run" / "model.safetensors")
    np.testing.assert_array_equal(model["w"], result.arrays["w"].numpy())
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    (entry,) = summary["configurations"]
    (configuration,) = read([tmp_path / "run"]).configurations
    trace = read_trace(configuration)
    expected = [distance_of(model["w"], 2.0) < 1.5] * 3
    assert trace.satisfied[-1].tolist() == expected
    assert entry["seen"]["gm_appeal"] == {
        "test": np.mean(expected), "judging": None, "literal": None
    }  # fmt: skip
    np.testing.assert_allclose(
        trace.judging_value[-1], [distance_of(model["w"], t) for t in (0, 9, 1)]
    )
    assert trace.requirement.tolist() == [5, 1, 3]
    assert trace.train_samples.tolist() == [10, 20, 30]
    assert trace.rounds_participated.tolist() == [4, 4, 4]
    assert summary["flower"]


@pytest.mark.parametrize("collect_losses", [True, False])
def test_a_report_of_a_federation(tmp_path, collect_losses):
    run(
        tmp_path / "run",
        federation(),
        collect_losses=collect_losses,
        decline_after=2,
        title="Three numbers",
    )
    made = write_report([tmp_path / "run"], figures=False)
    page = (made.folder / "report.html").read_text()
    assert "Three numbers" in page
    assert "GM-Appeal is what the clients said" in page
    assert "by their judging data" in page
    means_only = "nothing can be said about single clients" in " ".join(made.missing)
    assert means_only is not collect_losses
    assert (made.folder / "tables" / "clients.csv").exists() is collect_losses
    card = (tmp_path / "run" / "model-card.md").read_text()
    assert "MaxFL" in card


def test_what_went_wrong_is_in_the_summary(tmp_path):
    def fails(message, context):  # noqa: ARG001
        return Message(Error(3, "it broke"), reply_to=message)

    nodes = Nodes(*federation().apps.values(), fails, make_app(1.0, 2.0, np.nan), None)
    run(tmp_path / "run", nodes, rounds=3, decline_after=2)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    (entry,) = summary["configurations"]
    assert entry["answers"] == {
        "sampled": 18, "participated": 8, "satisfied": 6, "declined": 1, "failed": 6, "rejected": 3
    }  # fmt: skip
    events = {(e["node"], e["kind"], e["why"]) for e in entry["events"] if e["round"] == 3}
    assert (
        "12",
        "declined",
        "by its judging data, the model does not meet its requirement",
    ) in events
    assert ("14", "failed", "it broke") in events
    assert ("15", "rejected", "w has values that are not finite") in events
    assert ("16", "failed", "no answer in time") in events


def test_without_evaluation_figures_are_of_the_model_before(tmp_path):
    strategy = MaxFL(folder=tmp_path / "run", fraction_evaluate=0.0)
    strategy.start(federation(), arrays(START), num_rounds=3)
    when, values = metric_series(strategy.rounds, ACCURACY)["gm_appeal"]
    assert when == [0, 1, 2]
    assert values[0] == pytest.approx(2 / 3)  # |w − 0| < 5 and |w − 1| < 3, not |w − 9| < 1
    (entry,) = json.loads((tmp_path / "run" / "summary.json").read_text())["configurations"]
    assert "nobody has evaluated the model of the last round" in entry["notes"][0]


def numbered(first, numbers=(0, 1, 2)):
    """Three clients on nodes from ``first`` on, with numbers in their nodes' configs."""
    nodes = federation()
    apps = dict(zip(range(first, first + 3), nodes.apps.values(), strict=True))
    nodes.apps, nodes.contexts = apps, {
        node: Context(
            run_id=1, node_id=node, node_config={"partition-id": k}, state=RecordDict(),
            run_config={},
        )
        for node, k in zip(apps, numbers, strict=True)
    }  # fmt: skip
    return nodes


def test_a_number_that_two_claim_names_neither(tmp_path):
    run(tmp_path / "run", numbered(11, (0, 7, 7)), collect_losses=True)
    (configuration,) = read([tmp_path / "run"]).configurations
    assert read_trace(configuration).name.tolist() == ["client 0", "node 12", "node 13"]


def test_a_client_is_one_client_after_a_restart(tmp_path):
    """Nodes have other ids then; what they are known by is their number."""
    stopped(numbered(11), tmp_path / "run", 5, collect_losses=True)
    run(tmp_path / "run", numbered(21), collect_losses=True, resume=True)
    (configuration,) = read([tmp_path / "run"]).configurations
    trace = read_trace(configuration)
    assert trace.name.tolist() == ["client 0", "client 1", "client 2"]
    assert trace.rounds_participated.tolist() == [4, 4, 4]
    assert trace.train_samples.tolist() == [10, 20, 30]


def test_a_report_of_nobody(tmp_path):
    """All fail: nothing is known, and nothing is claimed."""
    run(tmp_path / "run", Nodes(None, None), rounds=2, fraction_evaluate=0.0)
    made = write_report([tmp_path / "run"], figures=False)
    assert made.verdicts == ["It is not known whether the model meets anybody's requirement."]


def test_a_report_of_a_folder_of_version_0_1(tmp_path):
    """It had other names for settings and counts."""
    folder = tmp_path / "run"
    run(folder, federation(), decline_after=2)
    experiment, summary = (
        json.loads((folder / name).read_text()) for name in ("experiment.json", "summary.json")
    )
    config, (entry,) = experiment["config"], summary["configurations"]
    for table, new, old in (
        (config["participation"], "start_round", "start"),
        (config["participation"], "min_participants", "floor"),
        (config["replies"], "min_replies", "least"),
        (config["replies"], "max_update_norm", "largest_norm"),
        (config["server"], "aggregator", "rule"),
        (config["flower"], "collect_losses", "reveal"),
        (entry["answers"], "sampled", "asked"),
        (entry["answers"], "participated", "took_part"),
    ):
        table[old] = table.pop(new)
    del summary["files"], summary["digest"]
    source, page = read([folder]), cards(read([folder]))
    (folder / "experiment.json").write_text(json.dumps(experiment))
    (folder / "summary.json").write_text(json.dumps(summary))
    (before,), (now,) = read([folder]).configurations, source.configurations
    assert before.settings == now.settings
    assert cards(read([folder])) == page


def test_a_federation_with_a_metric_of_its_own(tmp_path):
    mae = MetricInfo("mae", higher_is_better=False)
    nodes = federation(test_mae=31.25)
    run(tmp_path / "run", nodes, rounds=2, collect_losses=True, metric=mae, metric_key="test-mae")
    (entry,) = json.loads((tmp_path / "run" / "summary.json").read_text())["configurations"]
    assert entry["seen"]["test_mae"] == 31.25
    assert ", mae 31.2;" in (tmp_path / "run" / "rounds.log").read_text()
    assert (read_trace(read([tmp_path / "run"]).configurations[0]).metric == 31.25).all()
    card = (tmp_path / "run" / "model-card.md").read_text()
    assert "with a test mae (lower is better) of 31.2 on average" in card
    assert "accuracy" not in card
    with pytest.raises(InputError, match=r"flower\.metric"):
        run(tmp_path / "run", nodes, rounds=2, collect_losses=True, resume=True)
