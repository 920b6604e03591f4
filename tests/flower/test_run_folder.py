"""A federation's folder: resumed, read by reports, and honest about what it does not know."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import Context, Error, Message, RecordDict
from safetensors.numpy import load_file

from maxfl.flower import MaxFL, Privacy
from maxfl.flower.results import series
from maxfl.flower.round_log import from_plain, to_plain
from maxfl.report.source import read
from maxfl.report.traces import read_trace
from maxfl.report.write import write_report
from maxfl.runs.watch import look
from maxfl.utils.errors import InputError
from support.flower_nodes import START, Nodes, _identity, arrays, make_app  # noqa: F401

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("_identity")]


def distance(target):
    """Loss of a model for a client that wants w near a target."""
    return lambda message, _: float(np.abs(message.content["arrays"]["w"].numpy() - target).mean())


def federation(**options):
    """Three clients: one content, one out of reach, one whose loss on data it kept is larger."""
    return Nodes(
        make_app(distance(0.0), 5.0, 0.5, 10, **options),
        make_app(distance(9.0), 1.0, 0.2, 20, **options),
        make_app(distance(1.0), 3.0, 0.1, 30, **options),
    )


def stopped(nodes, folder, call, **options):
    """A run that is stopped by its first client, when that is called for so many times."""
    calls = []
    node, good = next(iter(nodes.apps.items()))

    def stops(message, context):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return good(message, context)

    nodes.apps[node] = stops
    with pytest.raises(KeyboardInterrupt):
        run(folder, nodes, **options)


def run(folder, nodes, rounds=4, **options):
    return MaxFL(folder=folder, **options).start(nodes, arrays(START), num_rounds=rounds)


def test_a_stopped_run_goes_on_to_the_same_end(tmp_path):
    whole = run(tmp_path / "whole", federation(), decline_after=2, reveal=True)
    nodes = federation()
    # In the evaluation of the third round.
    stopped(nodes, tmp_path / "cut", 6, decline_after=2, reveal=True)
    seen = look(tmp_path / "cut")
    assert (seen.done, seen.total, seen.finished) == (2, 4, False)
    assert seen.stopped == "KeyboardInterrupt"
    with pytest.raises(InputError, match="add --resume"):
        run(tmp_path / "cut", nodes, decline_after=2, reveal=True)
    result = run(tmp_path / "cut", nodes, decline_after=2, reveal=True, resume=True)
    assert sorted(result.train_metrics_clientapp) == [3, 4]
    for name in START:
        np.testing.assert_array_equal(result.arrays[name].numpy(), whole.arrays[name].numpy())
    for name in ("metrics.parquet", "history.parquet", "rounds.parquet", "clients.parquet"):
        cut, uncut = (pq.read_table(tmp_path / own / name) for own in ("cut", "whole"))
        assert str(cut.to_pylist()) == str(uncut.to_pylist())  # NaN and all
    again = run(tmp_path / "cut", nodes, decline_after=2, reveal=True, resume=True)
    np.testing.assert_array_equal(again.arrays["w"].numpy(), whole.arrays["w"].numpy())
    assert not (tmp_path / "cut" / "checkpoint.safetensors").exists()
    assert look(tmp_path / "cut").finished


def test_another_experiment_is_not_overwritten(tmp_path):
    run(tmp_path / "run", federation())
    before = (tmp_path / "run" / "summary.json").read_bytes()
    with pytest.raises(InputError, match=r"config\.algorithm\.temperature"):
        run(tmp_path / "run", federation(), temperature=0.5, resume=True)
    assert (tmp_path / "run" / "summary.json").read_bytes() == before


def test_a_damaged_checkpoint_is_told(tmp_path):
    stopped(federation(), tmp_path / "run", 3)
    path = tmp_path / "run" / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="damaged or of another version"):
        run(tmp_path / "run", federation(), resume=True)


def test_the_final_model_and_the_figures(tmp_path):
    held_out = (distance(2.0), 1.5)
    result = run(tmp_path / "run", federation(held_out=held_out), reveal=True)
    model = load_file(tmp_path / "run" / "model.safetensors")
    np.testing.assert_array_equal(model["w"], result.arrays["w"].numpy())
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    (entry,) = summary["configurations"]
    (own,) = read([tmp_path / "run"]).configurations
    trace = read_trace(own)
    expected = [distance_of(model["w"], 2.0) < 1.5] * 3
    assert trace.satisfied[-1].tolist() == expected
    assert entry["seen"]["gm_appeal"] == {
        "held-out": np.mean(expected), "training": None, "literal": None
    }  # fmt: skip
    np.testing.assert_allclose(
        trace.train_loss[-1], [distance_of(model["w"], t) for t in (0, 9, 1)]
    )
    assert trace.requirement.tolist() == [5, 1, 3]
    assert trace.train_samples.tolist() == [10, 20, 30]
    assert trace.joined.tolist() == [4, 4, 4]
    assert summary["flower"]


def distance_of(w, target):
    return float(np.abs(w - target).mean())


@pytest.mark.parametrize("reveal", [True, False])
def test_a_report_of_a_federation(tmp_path, reveal):
    run(tmp_path / "run", federation(), reveal=reveal, decline_after=2, title="Three numbers")
    made = write_report([tmp_path / "run"], figures=False)
    page = (made.folder / "report.html").read_text()
    assert "Three numbers" in page
    assert "GM-Appeal is what the clients said" in page
    assert "by their training data" in page
    means_only = "nothing can be said about single clients" in " ".join(made.missing)
    assert means_only is not reveal
    assert (made.folder / "tables" / "clients.csv").exists() is reveal
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
        "asked": 18, "took_part": 8, "satisfied": 6, "declined": 1, "failed": 6, "rejected": 3
    }  # fmt: skip
    told = {(e["node"], e["kind"], e["why"]) for e in entry["events"] if e["round"] == 3}
    assert (
        "12",
        "declined",
        "by its training data, the model does not meet its requirement",
    ) in told
    assert ("14", "failed", "it broke") in told
    assert ("15", "rejected", "w has values that are not finite") in told
    assert ("16", "failed", "no answer in time") in told


def test_without_evaluation_figures_are_of_the_model_before(tmp_path):
    strategy = MaxFL(folder=tmp_path / "run", fraction_evaluate=0.0)
    strategy.start(federation(), arrays(START), num_rounds=3)
    when, values = series(strategy.rounds)["gm_appeal"]
    assert when == [0, 1, 2]
    assert values[0] == pytest.approx(2 / 3)  # |w − 0| < 5 and |w − 1| < 3, not |w − 9| < 1
    (entry,) = json.loads((tmp_path / "run" / "summary.json").read_text())["configurations"]
    assert "nobody has judged the model of the last round" in entry["notes"][0]


def test_epsilon_is_in_the_summary(tmp_path):
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    from maxfl.flower.privacy import epsilon

    own = Privacy(clip=1.0, noise_multiplier=1.0)
    run(tmp_path / "run", federation(), rounds=3, privacy=own, fraction_evaluate=0.0,
        fraction_train=0.5)  # fmt: skip
    (entry,) = json.loads((tmp_path / "run" / "summary.json").read_text())["configurations"]
    assert entry["privacy"]["epsilon"] == epsilon(own, 0.5, 3)
    assert entry["privacy"]["delta"] == 1e-5
    assert not any(event["kind"] == "declined" for event in entry["events"])


def test_rounds_survive_json():
    strategy = MaxFL(reveal=True, fraction_evaluate=1.0)
    nodes = federation()
    nodes.apps[12] = make_app(1.0, 2.0, maxfl_appeal=7)
    strategy.start(nodes, arrays(START), num_rounds=2)
    for own in strategy.rounds:
        assert repr(from_plain(json.loads(json.dumps(to_plain(own))))) == repr(own)


def test_a_liar_does_not_end_an_evaluation():
    nodes = Nodes(make_app(1.0, 2.0), make_app(1.0, 2.0), make_app(3.0, 2.0, other=1.0))
    strategy = MaxFL()
    strategy.start(nodes, arrays(START), num_rounds=1)
    (own,) = strategy.rounds
    assert (own.evaluated.told, own.evaluated.satisfied) == (2, 2)
    assert [event.why for event in own.events] == ["evaluation: other metrics than most"]


def test_killed_before_the_results_were_written(tmp_path, monkeypatch):
    """After the last round, before the end: nothing is left to train, and nothing is lost."""
    whole = run(tmp_path / "whole", federation())

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("maxfl.flower.keeping.Keeper.finish", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "cut", federation())
    result = run(tmp_path / "cut", federation(), resume=True)
    np.testing.assert_array_equal(result.arrays["w"].numpy(), whole.arrays["w"].numpy())
    model = load_file(tmp_path / "cut" / "model.safetensors")
    np.testing.assert_array_equal(model["w"], whole.arrays["w"].numpy())
    assert not list((tmp_path / "cut").glob("checkpoint*"))


def test_a_round_that_was_cut_off_is_paid_for(tmp_path):
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    from maxfl.flower.privacy import epsilon

    own = Privacy(clip=1.0, noise_multiplier=1.0)
    nodes = federation()
    options = {"rounds": 3, "privacy": own, "fraction_evaluate": 0.0}
    stopped(nodes, tmp_path / "run", 2, **options)
    run(tmp_path / "run", nodes, resume=True, **options)
    (entry,) = json.loads((tmp_path / "run" / "summary.json").read_text())["configurations"]
    assert entry["privacy"]["rounds"] == 4
    assert entry["privacy"]["epsilon"] == epsilon(own, 1.0, 4)


def test_reasons_are_one_short_line(tmp_path):
    def fails(message, context):  # noqa: ARG001
        return Message(Error(3, "a\nround 9: forged " + "x" * 10**6), reply_to=message)

    run(tmp_path / "run", Nodes(make_app(1.0, 2.0), make_app(1.0, 2.0), fails), rounds=2)
    lines = (tmp_path / "run" / "rounds.log").read_text().splitlines()
    assert [line[:7] for line in lines if not line.startswith("  ")] == ["round 1", "round 2"]
    assert max(map(len, lines)) < 400


def test_the_log_is_that_of_the_rounds_that_count(tmp_path):
    nodes = federation()
    stopped(nodes, tmp_path / "run", 5)
    with (tmp_path / "run" / "checkpoint.jsonl").open("a") as file:
        file.write("[3, of a round that was cut off")
    run(tmp_path / "run", nodes, resume=True)
    lines = (tmp_path / "run" / "rounds.log").read_text().splitlines()
    assert [line.split(":")[0] for line in lines] == [f"round {r}" for r in (1, 2, 3, 4)]


def test_other_defences_are_another_experiment(tmp_path):
    run(tmp_path / "run", federation())
    with pytest.raises(InputError, match=r"config\.replies\.least"):
        run(tmp_path / "run", federation(), least_replies=2, resume=True)


def test_a_client_is_one_client_after_a_restart(tmp_path):
    """Nodes have other ids then; what they are known by is their number."""

    def numbered(first):
        nodes = federation()
        apps = dict(zip(range(first, first + 3), nodes.apps.values(), strict=True))
        nodes.apps, nodes.contexts = apps, {
            node: Context(
                run_id=1, node_id=node, node_config={"partition-id": k}, state=RecordDict(),
                run_config={},
            )
            for k, node in enumerate(apps)
        }  # fmt: skip
        return nodes

    stopped(numbered(11), tmp_path / "run", 5, reveal=True)
    run(tmp_path / "run", numbered(21), reveal=True, resume=True)
    (own,) = read([tmp_path / "run"]).configurations
    trace = read_trace(own)
    assert trace.name.tolist() == ["client 0", "client 1", "client 2"]
    assert trace.joined.tolist() == [4, 4, 4]
    assert trace.train_samples.tolist() == [10, 20, 30]


def test_a_report_of_nobody(tmp_path):
    """All fail: nothing is known, and nothing is claimed."""
    run(tmp_path / "run", Nodes(None, None), rounds=2, fraction_evaluate=0.0)
    made = write_report([tmp_path / "run"], figures=False)
    assert made.verdicts == ["It is not known whether the model meets anybody's requirement."]
