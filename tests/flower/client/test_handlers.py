"""An app that knows no MaxFL, converted by a few lines: its own handlers judge."""

import importlib
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from maxfl.core import appeal
from maxfl.flower import MaxFL, RequirementStore, appeal_mod, keys, secure_mod
from maxfl.utils.errors import InputError
from support.flower_nodes import Nodes, arrays
from support.flower_nodes import train as train_rounds
from support.flower_secure import secure_strategy

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]
ROOT = Path(__file__).parents[3]
QUICKSTART = ROOT / "tests/support/flower_quickstart"


def diffs():
    """By file: the lines of the page that convert the app."""
    text = (ROOT / "docs/flower.md").read_text()
    blocks = re.findall(r"in `(\w+\.py)`:\n\n```diff\n(.*?)```", text, re.S)
    assert [name for name, _ in blocks] == ["client_app.py", "server_app.py"]
    return {name: diff.splitlines() for name, diff in blocks}


def converted(folder):
    """The app with the page's lines: each new one in the place of the old one before it."""
    shutil.copytree(QUICKSTART, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, diff in diffs().items():
        path = folder / "quickstart" / name
        lines = path.read_text().splitlines()
        place = next(n for n, line in enumerate(lines) if line.startswith("from flwr"))
        for line in diff:
            if line[0] == "-":
                place = lines.index(line[1:])
                del lines[place]
            else:
                lines.insert(place, line[1:])
        path.write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def quickstart(tmp_path, monkeypatch):
    """Server and client of the converted app."""
    pytest.importorskip("sklearn", reason="scikit-learn not installed")
    monkeypatch.syspath_prepend(str(converted(tmp_path / "app")))
    yield [importlib.import_module(f"quickstart.{name}") for name in ("server_app", "client_app")]
    for name in [name for name in sys.modules if name.split(".")[0] == "quickstart"]:
        del sys.modules[name]


def test_the_conversion_is_at_most_ten_lines():
    changed = [line for diff in diffs().values() for line in diff]
    assert all(line[0] in "+-" for line in changed)
    assert len(changed) <= 10


def test_the_converted_quickstart_trains_with_maxfl(quickstart):
    """Through its own server app: the client whose labels contradict the others' stays away."""
    server, client = quickstart
    config = {"num-server-rounds": 5, "local-iterations": 3}
    nodes = Nodes(*[client.app] * 4)
    for k, context in enumerate(nodes.contexts.values()):
        context.node_config |= {"partition-id": k, "num-partitions": 4}
        context.run_config |= config
    seen = []
    original = server.MaxFL.aggregate_train

    class Watched(server.MaxFL):
        def aggregate_train(self, *args):
            found = original(self, *args)
            seen.append(self)
            return found

    server.MaxFL = Watched
    server.app(nodes, Context(
        run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=config
    ))  # fmt: skip
    rounds = seen[-1].rounds
    assert [entry.counts.participated for entry in rounds[:3]] == [4, 4, 4]
    assert 14 in {event.node for event in rounds[3].events if event.kind == "declined"}
    assert all(entry.evaluation.on_test is False for entry in rounds)


def linear_app(key="loss", mods=(), evaluate_with=None, **options):
    """A client that wants w near 1 and halves the distance in a round; it counts in its state."""
    judge = appeal_mod.from_evaluate(key, handlers=lambda: (train, evaluate), **options)
    app = ClientApp(mods=[*mods, judge])

    @app.train()
    def train(message, context):
        w = message.content["arrays"]["w"].numpy()
        count = context.state.setdefault("app", MetricRecord({"trained": 0}))
        count["trained"] += 1
        message.content["arrays"] = ArrayRecord()  # whoever trains may spoil its message
        after = arrays({"w": w + (1 - w) / 2})
        metrics = MetricRecord({"num-examples": 1, "round": message.content["config"].get(
            "server-round", 0)})  # fmt: skip
        return Message(RecordDict({"arrays": after, "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        if evaluate_with is not None:
            return evaluate_with(message)
        away = float(np.abs(message.content["arrays"]["w"].numpy() - 1).max())
        context.state["seen"] = MetricRecord({"loss": away})
        metrics = MetricRecord({"num-examples": 1, "loss": away, "accuracy": 1 - away / 16})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


WIDE = {"w": np.array([9.0, 5.0])}


def ask(app, config=None, kind="train", context=None):
    """One message to one client."""
    content = RecordDict({"arrays": arrays(WIDE), "config": ConfigRecord(config or {})})
    nodes = Nodes(app)
    if context is not None:
        nodes.contexts[11] = context
    (reply,) = nodes.send_and_receive([Message(content, dst_node_id=11, message_type=kind)])
    return reply, nodes.contexts[11]


TOLD = {keys.COLLECT_LOSSES: True, keys.SCALE: 0.5, keys.QUANTILE: 0.25, keys.TEMPERATURE: 2.0}


def test_loss_and_requirement_are_those_of_the_handlers_by_hand():
    """|9 − 1| = 8 comes in; three solo rounds leave 1."""
    reply, _ = ask(linear_app(solo_rounds=3), TOLD)
    metrics = reply.content["metrics"]
    assert (metrics[keys.LOSS], metrics[keys.REQUIREMENT]) == (8.0, 1.0)
    assert metrics[keys.WEIGHT] == float(appeal.weight(8.0, 1.0, 2.0))
    assert (metrics[keys.SATISFIED], metrics[keys.NEAR]) == (0, 0)
    np.testing.assert_array_equal(reply.content["arrays"]["w"].numpy(), [5.0, 3.0])


def test_more_of_a_metric_can_be_better_and_a_tie_satisfies():
    """1 − 8/16 = 0.5 comes in, 1 − 4/16 = 0.75 is required; ½ would do for ½."""
    options = {"key": "accuracy", "higher_is_better": True}
    metrics = ask(linear_app(solo_rounds=1, **options), TOLD)[0].content["metrics"]
    assert metrics[keys.LOSS] == -0.5
    assert metrics[keys.REQUIREMENT] == pytest.approx(-0.75, abs=1e-5)
    for required, satisfied in ((0.5, 1), (0.51, 0)):
        app = linear_app(requirement=required, **options)
        assert ask(app)[0].content["metrics"][keys.SATISFIED] == satisfied
    tied = ask(linear_app(requirement=8.0))[0].content["metrics"]
    assert tied[keys.SATISFIED] == 0, "a loss must be beaten"


def test_the_apps_state_is_as_if_nobody_had_trained_alone():
    first, context = ask(linear_app(solo_rounds=4), {"server-round": 1})
    assert context.state["app"]["trained"] == 1
    assert "seen" not in context.state
    assert set(context.state) == {"app", keys.STATE}
    assert first.content["metrics"]["round"] == 1
    ask(linear_app(solo_rounds=4), context=context)
    assert context.state["app"]["trained"] == 2


def test_a_client_may_decline_and_says_so_when_the_model_is_evaluated():
    reply, _ = ask(linear_app(), {keys.MAY_DECLINE: True})
    assert reply.error.code == keys.DECLINED
    reply, _ = ask(linear_app(requirement=9.0), kind="evaluate")
    metrics = reply.content["metrics"]
    assert (metrics[keys.SATISFIED], metrics[keys.ON_TEST], metrics["loss"]) == (1, 0, 8.0)


def test_a_solo_model_that_begins_late_is_told(caplog):
    import logging

    logger = logging.getLogger("flwr")
    logger.addHandler(caplog.handler)
    try:
        logger.setLevel(logging.WARNING)
        ask(linear_app(), {"server-round": 1})
        assert not caplog.text
        ask(linear_app(), {"server-round": 7})
        assert "begins with the federation's model of round 7" in caplog.text
    finally:
        logger.removeHandler(caplog.handler)


def test_it_goes_with_secure_aggregation():
    nodes = Nodes(*[linear_app(mods=[secure_mod], solo_rounds=2) for _ in range(3)])
    strategy, through = secure_strategy(nodes, temperature=8.0)
    ((model, _),) = train_rounds(strategy, through, start=WIDE)
    assert strategy.rounds[0].counts.participated == 3
    norm = float(np.hypot(4.0, 2.0))  # of the update, which is clipped to 2
    np.testing.assert_allclose(model["w"], WIDE["w"] - np.array([4.0, 2.0]) * 2 / norm, atol=0.01)


def test_what_is_required_is_kept_for_these_arguments(tmp_path):
    for rounds, required in ((2, 2.0), (2, 2.0), (3, 1.0)):
        keep = RequirementStore(lambda _: "data", tmp_path)
        metrics = ask(linear_app(solo_rounds=rounds, keep=keep), TOLD)[0].content["metrics"]
        assert metrics[keys.REQUIREMENT] == required
    assert len(list(tmp_path.glob("maxfl-*"))) == 2


def replying(**metrics):
    return lambda m: Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=m)


def failing(_):
    raise RuntimeError("no data here")


@pytest.mark.parametrize(
    ("evaluate", "words"),
    [
        (replying(losses=1.0, n=2), "replies with losses, n; name one of them, .*mean 'losses'"),
        (lambda m: Message(RecordDict(), reply_to=m), "replies with no metrics"),
        (replying(loss=float("nan")), "loss = nan; expected a finite number"),
        (replying(loss=[1.0, 2.0]), "expected a finite number"),
        (failing, "evaluate handler, called by .* raised RuntimeError: no data here"),
        (lambda m: Message(Error(1, "too little data"), reply_to=m), "error: too little data"),
    ],
)
def test_what_a_handler_does_wrong_is_told(evaluate, words):
    with pytest.raises(InputError, match=words):
        ask(linear_app(evaluate_with=evaluate, requirement=1.0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": ""}, "expected the name of a metric"),
        ({"handlers": None}, "expected a function that returns the app's handlers"),
        ({"solo_rounds": 0}, "solo_rounds.* at least 1"),
        ({"requirement": float("nan")}, "requirement.* finite"),
        ({"keep": 1}, "expected RequirementStore"),
    ],
)
def test_bad_arguments_are_told(options, words):
    with pytest.raises(InputError, match=words):
        appeal_mod.from_evaluate(**{"handlers": lambda: (None, None), **options})


@pytest.mark.parametrize("handlers", [lambda: nothing, lambda: None, lambda: (1, 2, 3)])  # noqa: F821
def test_handlers_that_are_not_there_are_told(handlers):
    app = ClientApp(mods=[appeal_mod.from_evaluate(handlers=handlers)])
    app.train()(lambda *_: None)
    with pytest.raises(InputError, match="does not lead to the app's handlers"):
        ask(app)


def test_it_trains_through_the_strategy_as_with_a_loss_function():
    """The same losses and requirements by functions: the same model, bit for bit."""

    def loss(message, _):
        return float(np.abs(message.content["arrays"]["w"].numpy() - 1).max())

    def by_function():
        app = ClientApp(mods=[appeal_mod(loss, lambda *_: 2.0)])

        @app.train()
        def train(message, context):  # noqa: ARG001
            w = message.content["arrays"]["w"].numpy()
            content = {"arrays": arrays({"w": w + (1 - w) / 2}),
                       "metrics": MetricRecord({"num-examples": 1})}  # fmt: skip
            return Message(RecordDict(content), reply_to=message)

        return app

    ends = []
    for app in (linear_app(solo_rounds=2), by_function()):
        strategy = MaxFL(server_lr=0.5)
        ends.append((train_rounds(strategy, Nodes(app, app), rounds=4, start=WIDE), strategy))
    (first, a), (second, b) = ends
    assert [entry.solver for entry in a.rounds] == [entry.solver for entry in b.rounds]
    np.testing.assert_array_equal(first[-1][0]["w"], second[-1][0]["w"])
