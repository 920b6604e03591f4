"""MaxFL's strategy and mod with Flower's own messages, in one process."""

import math

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import Array, ConfigRecord, Error, Message, MessageType, RecordDict
from flwr.serverapp.strategy import FedAvg

from maxfl.core import aggregators, appeal
from maxfl.flower import MaxFL, appeal_mod, keys
from maxfl.utils.errors import InputError
from support.flower_nodes import START, Nodes, _identity, arrays, make_app, train  # noqa: F401

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("_identity")]


def test_the_step_worked_by_hand():
    nodes = Nodes(make_app(1.0, 1.0, 0.5), make_app(3.0, 1.0, -1.0))
    ((model, metrics),) = train(MaxFL(epsilon=0.01, server_lr=2.0), nodes)
    q = [0.25, appeal.weight(3.0, 1.0)]
    step = 2.0 * (q[0] * 0.5 - q[1] * 1.0) / (sum(q) + 0.01)
    for name, before in START.items():
        np.testing.assert_allclose(model[name], before - step, rtol=1e-6)
        assert model[name].dtype == np.float32
    assert (metrics["asked"], metrics["took_part"], metrics["gm-appeal"]) == (2, 2, 0)


def test_requirements_are_asked_once_and_stay_with_the_client():
    asked = []

    def requirement(message, context):  # noqa: ARG001
        asked.append(context.node_id)
        return 2.0

    nodes = Nodes(make_app(1.0, requirement), make_app(3.0, requirement))
    seen = []
    original = nodes.send_and_receive
    nodes.send_and_receive = lambda messages: seen.extend(original(messages)) or seen[-2:]
    results = train(MaxFL(), nodes, rounds=3)
    assert sorted(asked) == [11, 12]
    assert [m["gm-appeal"] for _, m in results] == [0.5] * 3
    for reply in seen:
        (told,) = reply.content.metric_records.values()
        assert set(told) == {"num-examples", keys.WEIGHT, keys.APPEAL}


def test_losses_are_told_only_if_the_operator_asks():
    nodes = Nodes(make_app(1.0, 2.0), make_app(1.0, 2.0))
    strategy = MaxFL(reveal=True)
    messages = strategy.configure_train(1, arrays(START), ConfigRecord(), nodes)
    first = nodes.send_and_receive(messages)[0].content["metrics"]
    assert (first[keys.LOSS], first[keys.REQUIREMENT]) == (1.0, 2.0)


def test_clients_decline_after_the_warm_up_and_come_back():
    losses = {11: 1.0, 12: 3.0}
    strategy = MaxFL(decline_after=1)
    nodes = Nodes(*[make_app(lambda _, own: losses[own.node_id], 2.0) for _ in losses])
    train(strategy, nodes, rounds=2)
    assert strategy.counts[1] == (2, 2, 1, 0, 0, 0)
    assert strategy.counts[2] == (2, 1, 1, 1, 0, 0)
    losses[12] = 1.0
    messages = strategy.configure_train(3, arrays(START), ConfigRecord(), nodes)
    strategy.aggregate_train(3, nodes.send_and_receive(messages))
    assert strategy.counts[3] == (2, 2, 2, 0, 0, 0)


def test_below_the_floor_nobody_may_decline():
    strategy = MaxFL(decline_after=0, floor=2)
    train(strategy, Nodes(make_app(1.0, 2.0), make_app(3.0, 2.0)), rounds=3)
    assert [c.took_part for c in strategy.counts.values()] == [1, 2, 1]


def test_with_nobody_the_model_stays():
    strategy = MaxFL(decline_after=0)
    ((model, metrics),) = train(strategy, Nodes(make_app(3.0, 2.0), make_app(3.0, 2.0)))
    np.testing.assert_array_equal(model["w"], START["w"])
    assert (metrics["declined"], metrics["gm-appeal"]) == (2, 0)


def broken(change):
    """An honest client's reply, with something changed."""
    good = make_app(1.0, 2.0)

    def answer(message, context):
        reply = good(message, context)
        change(reply.content)
        return reply

    return answer


def replace(name, value):
    def change(content):
        values = {n: a.numpy() for n, a in content["arrays"].items()} | {name: value}
        content["arrays"] = arrays(values)

    return change


def forge(change):
    """Bytes of an array that are not what its header says."""

    def forged(content):
        own = content["arrays"]["w"]
        content["arrays"]["w"] = Array(own.dtype, own.shape, own.stype, change(own.data))

    return forged


@pytest.mark.parametrize(
    "bad",
    [
        broken(replace("w", np.array([1, np.nan, 2], np.float32))),
        broken(replace("w", np.array([1, np.inf, 2], np.float32))),
        broken(replace("w", np.ones(4, np.float32))),
        broken(replace("w", np.ones(3, np.float64))),
        broken(replace("more", np.ones(3, np.float32))),
        broken(replace("w", np.full(3, 1e9, np.float32))),
        broken(forge(lambda data: data.replace(b"(3,)", b"(9,)"))),
        broken(forge(lambda data: data.replace(b"(3,), }", b"(9**9,)}"))),
        broken(forge(lambda _: b"PK\x03\x04 no array")),
        broken(forge(lambda data: data[:-4])),
        broken(lambda content: content.pop("arrays")),
        broken(lambda content: content.pop("metrics")),
        make_app(1.0, 2.0, maxfl_weight=0.3),
        make_app(1.0, 2.0, maxfl_weight=-0.1),
        make_app(1.0, 2.0, maxfl_weight=math.nan),
        make_app(1.0, 2.0, maxfl_weight=[0.1, 0.1]),
        make_app(1.0, 2.0, maxfl_appeal=7),
    ],
)
def test_a_bad_reply_is_rejected_alone(bad):
    good = (make_app(1.0, 2.0), make_app(3.0, 2.0))
    strategy = MaxFL()
    ((with_it, metrics),) = train(strategy, Nodes(*good, bad))
    ((without, _),) = train(MaxFL(), Nodes(*good))
    assert (metrics["took_part"], metrics["rejected"]) == (2, 1)
    np.testing.assert_array_equal(with_it["w"], without["w"])


def test_errors_and_silence_are_counted():
    def fails(message, context):  # noqa: ARG001
        return Message(Error(3, "it broke"), reply_to=message)

    strategy = MaxFL(least_replies=2)
    ((model, metrics),) = train(strategy, Nodes(make_app(1.0, 2.0), fails, None))
    assert (metrics["asked"], metrics["took_part"], metrics["failed"]) == (3, 1, 2)
    np.testing.assert_array_equal(model["w"], START["w"])  # too few good replies


def test_observing_trains_as_fedavg_does():
    apps = [make_app(1.0, 2.0, 0.5, 10.0), make_app(3.0, 2.0, -1.0, 30.0)]
    ((model, metrics),) = train(MaxFL(observe=True), Nodes(*apps))
    ((plain, _),) = train(FedAvg(), Nodes(*apps))
    np.testing.assert_allclose(model["w"], plain["w"], rtol=1e-6)
    assert metrics["gm-appeal"] == 0.5


@pytest.mark.parametrize("lie", [{"num_examples": -1.0}, {"num_examples": math.inf}, {"more": 1.0}])
def test_a_liar_does_not_end_the_observing(lie):
    honest = [make_app(1.0, 2.0, 0.5, 10.0), make_app(3.0, 2.0, -1.0, 30.0)]
    ((model, _),) = train(MaxFL(observe=True), Nodes(*honest, make_app(1.0, 2.0, 0.0, 40.0, **lie)))
    expected = honest if "more" not in lie else [*honest, make_app(1.0, 2.0, 0.0, 40.0)]
    ((plain, _),) = train(FedAvg(), Nodes(*expected))
    np.testing.assert_allclose(model["w"], plain["w"], rtol=1e-6)


def test_a_step_that_is_not_finite_is_not_taken():
    apps = [make_app(1.0, 2.0, sign * 1e38) for sign in (1, 1, 1)]
    strategy = MaxFL(largest_norm=1e39, server_lr=1e3)
    ((model, metrics),) = train(strategy, Nodes(*apps))
    np.testing.assert_array_equal(model["w"], START["w"])
    assert metrics["took_part"] == 3


def test_what_apps_tell_of_their_training_is_averaged():
    apps = [make_app(1.0, 2.0, 0.5, n, **{"train_loss": x}) for n, x in ((10.0, 1.0), (30.0, 2.0))]
    ((_, metrics),) = train(MaxFL(), Nodes(*apps))
    assert metrics["train-loss"] == pytest.approx(1.75)
    assert keys.WEIGHT not in metrics


def test_clipping_and_robust_rules_are_the_simulations():
    apps = [make_app(1.0, 2.0, c) for c in (0.1, 0.2, 50.0)]
    ((model, _),) = train(MaxFL(robust=aggregators.median(), epsilon=0), Nodes(*apps))
    np.testing.assert_allclose(model["w"], START["w"] - 0.2, rtol=1e-6)
    ((model, _),) = train(
        MaxFL(robust=aggregators.mean(clip=0.2), epsilon=0), Nodes(*apps[2:], apps[2])
    )
    np.testing.assert_allclose(START["w"] - model["w"], 0.1, rtol=1e-5)  # 0.2 / √4 each


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MaxFL(temperature=0), "algorithm.temperature"),
        (lambda: MaxFL(largest_norm=-1), "largest_norm"),
        (lambda: MaxFL(robust=aggregators.mean(clip=-1)), "server.clip"),
        (lambda: MaxFL(decline_after=-1), "decline_after"),
        (lambda: MaxFL(decline_after=3).start(None, None, 3), "nobody could ever decline"),
        (lambda: MaxFL(observe=True, robust=aggregators.median()), "robust= has no effect"),
        (lambda: MaxFL(robust="median"), "robust = 'median': want a maxfl.aggregators.Robust"),
        (lambda: MaxFL(privacy={"clip": 1.0}), "want a maxfl.flower.privacy.Privacy"),
        (lambda: MaxFL(fraction_train=2.0), "fraction_train"),
        (lambda: appeal_mod(lambda *_: 1.0, None), "neither a finite number nor a function"),
        (lambda: appeal_mod("loss", 1.0), "want a function"),
        (lambda: appeal_mod(lambda *_: 1.0, math.nan), "neither a finite number"),
    ],
)
def test_bad_settings_are_told(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_a_requirement_that_is_no_number_is_told_at_the_client():
    nodes = Nodes(make_app(1.0, lambda *_: math.inf))
    message = Message(
        RecordDict({"arrays": arrays(START), "config": ConfigRecord()}), dst_node_id=11,
        message_type=MessageType.TRAIN,
    )  # fmt: skip
    with pytest.raises(InputError, match="requirement of this client came out as inf"):
        nodes.send_and_receive([message])


def test_evaluation_tells_appeal_too():
    strategy = MaxFL()
    nodes = Nodes(make_app(1.0, 2.0), make_app(3.0, 2.0))
    messages = strategy.configure_evaluate(1, arrays(START), ConfigRecord(), nodes)
    metrics = strategy.aggregate_evaluate(1, nodes.send_and_receive(messages))
    assert metrics[keys.APPEAL] == 0.5


@pytest.mark.parametrize("start", [None, 2])
def test_the_same_model_as_the_simulation(small, start):
    """Everybody is asked in every round, so both draw the same cohorts; 5 rounds, 1e-5."""
    import maxfl
    from maxfl.flower.jax_client import Local, client_app, initial_arrays
    from maxfl.utils.files import to_named

    seen = int(small.is_seen.sum())
    training = maxfl.Training(rounds=5, cohort=seen, local_steps=3, batch_size=4, server_lr=0.5)
    model = maxfl.mlp(4, (5,), 3)
    history = maxfl.simulate(
        small, model, maxfl.maxfl(temperature=0.5), training, seed=3,
        requirement=maxfl.solo(steps=10),
        participation=maxfl.everyone() if start is None else maxfl.decline(start=start),
    )  # fmt: skip
    app = client_app(Local(small, model, training, 3), solo_steps=10)
    nodes = Nodes(*[app] * seen)
    for client, context in enumerate(nodes.contexts.values()):
        context.node_config["partition-id"] = client
    strategy = MaxFL(temperature=0.5, server_lr=0.5, decline_after=start)
    began = {n: a.numpy() for n, a in initial_arrays(model, 3).items()}
    found = train(strategy, nodes, rounds=5, start=began)
    for name, w in to_named(history.params).items():
        np.testing.assert_allclose(found[-1][0][name], w[0], atol=1e-5)
    took_part = np.asarray(history.asked.took_part)[0].sum(1)
    assert [c.took_part for c in strategy.counts.values()] == took_part.tolist()
    if start is not None:
        assert took_part.min() < seen, "somebody declined, or this shows nothing"


def test_odd_metrics_do_not_end_an_evaluation():
    def listed(message, context):
        reply = make_app(1.0, 2.0)(message, context)
        if message.metadata.message_type == MessageType.EVALUATE:
            reply.content["metrics"]["accuracy"] = [0.5, 0.5]
        return reply

    def renamed(message, context):
        reply = make_app(1.0, 2.0)(message, context)
        if message.metadata.message_type == MessageType.EVALUATE:
            reply.content["other"] = reply.content.pop("metrics")
        return reply

    huge = make_app(1.0, 2.0, num_examples=1e300)
    nodes = Nodes(*[make_app(1.0, 2.0)] * 3, listed, renamed, huge, None)
    strategy = MaxFL(reveal=True)
    strategy.start(nodes, arrays(START), num_rounds=1)
    (own,) = strategy.rounds
    assert own.evaluated.told == 3
    late = [event.node for event in own.events if event.why.startswith("evaluation")]
    assert late == [16, 14, 15, 17]
