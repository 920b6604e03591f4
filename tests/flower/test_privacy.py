"""Secure sums and noise: what the server gets to see, and what is guaranteed of it."""

import math

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

from maxfl.core import aggregators, appeal
from maxfl.flower import MaxFL, Privacy, secure_mod
from maxfl.flower import privacy as rules
from maxfl.flower.secagg_server import SecureGrid, secure_tally
from maxfl.flower.sums import Counts, Tally, estimated
from maxfl.utils.errors import InputError
from support.flower_nodes import START, Nodes, _identity, arrays, make_app, train  # noqa: F401

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("_identity")]
SECURE = Privacy(clip=2.0, secure=True)


class Watched(Nodes):
    """A grid that keeps all that comes back; what fails at a client comes as Flower's error."""

    def __init__(self, *apps):
        super().__init__(*apps)
        self.seen = []

    def send_and_receive(self, messages, timeout=None):
        """As ever."""
        replies = []
        for message in messages:
            try:
                replies += super().send_and_receive([message], timeout)
            except (InputError, ValueError) as error:
                replies.append(Message(Error(3, str(error)), reply_to=message))
        self.seen += replies
        return replies


def secure_app(*args, **options):
    return make_app(*args, mods=[secure_mod], **options)


def secure_strategy(nodes, **options):
    strategy = MaxFL(privacy=SECURE, fraction_evaluate=0.0, **options)
    strategy._secure = SecureGrid(nodes, SECURE)
    return strategy, strategy._secure


CLIENTS = ((1.0, 2.0, 0.25), (3.0, 2.0, -0.5), (2.5, 2.0, 0.1))


def test_secure_sums_are_the_plain_ones():
    nodes = Watched(*[secure_app(*own) for own in CLIENTS])
    strategy, through = secure_strategy(nodes)
    ((model, metrics),) = train(strategy, through)
    ((plain, expected),) = train(MaxFL(), Nodes(*[make_app(*own) for own in CLIENTS]))
    for name in START:
        np.testing.assert_allclose(model[name], plain[name], atol=1e-5)  # it rounds
    assert dict(metrics) == dict(expected)


def test_the_server_sees_neither_weights_nor_updates():
    nodes = Watched(*[secure_app(1.0, 2.0) for _ in range(3)])
    strategy, through = secure_strategy(nodes)
    train(strategy, through, rounds=2)
    assert len(nodes.seen) == 2 * 4 * 3  # two rounds of four stages
    for reply in nodes.seen:
        content = reply.content
        metrics = {n: v for own in content.metric_records.values() for n, v in own.items()}
        assert metrics in ({}, {"num_examples": 1})
        assert not any(len(own) for own in content.array_records.values())
    masked = [own.content[RECORD_KEY_CONFIGS][Key.MASKED_PARAMETERS] for own in nodes.seen[6:9]]
    assert len({tuple(own) for own in masked}) == 3, "the same terms, each behind its own mask"


def test_who_declines_is_hidden_in_the_sum():
    nodes = Watched(*[secure_app(*own) for own in CLIENTS])
    strategy, through = secure_strategy(nodes, decline_after=0)
    ((model, metrics),) = train(strategy, through)
    assert (metrics["took_part"], metrics["declined"], metrics["satisfied"]) == (1, 2, 1)
    assert not any(reply.has_error() for reply in nodes.seen)
    q = appeal.weight(1.0, 2.0)
    np.testing.assert_allclose(model["b"], 0.5 - q * 0.25 / (q + 1e-3), atol=1e-5)
    assert strategy.rounds[0].events == []


def test_long_updates_are_clipped_by_the_client():
    long = (1.0, 2.0, 5.0)  # norm 10 over 4 numbers, C = 2
    nodes = Watched(*[secure_app(*long) for _ in range(3)])
    strategy, through = secure_strategy(nodes, epsilon=0.0)
    ((model, _),) = train(strategy, through)
    np.testing.assert_allclose(START["w"] - model["w"], 1.0, atol=1e-4)


def test_a_client_that_fails_is_left_out_of_the_sum():
    nodes = Watched(*[secure_app(*own) for own in CLIENTS], secure_app(1.0, 2.0, math.nan))
    strategy, through = secure_strategy(nodes)
    ((model, metrics),) = train(strategy, through)
    ((plain, _),) = train(MaxFL(), Nodes(*[make_app(*own) for own in CLIENTS]))
    assert (metrics["took_part"], metrics["failed"]) == (3, 1)
    np.testing.assert_allclose(model["w"], plain["w"], atol=1e-5)


def test_a_sum_of_one_is_no_secret():
    nodes = Watched(secure_app(1.0, 2.0))
    strategy, through = secure_strategy(nodes, min_available_nodes=1, min_train_nodes=1)
    ((model, metrics),) = train(strategy, through)
    np.testing.assert_array_equal(model["w"], START["w"])
    assert nodes.seen == []
    assert metrics["failed"] == 1


def test_a_secure_client_answers_no_plain_server():
    nodes = Nodes(secure_app(1.0, 2.0), secure_app(1.0, 2.0))
    with pytest.raises(InputError, match="answers by secure aggregation alone"):
        train(MaxFL(), nodes)


def test_a_client_without_the_mod_says_so():
    nodes = Watched(*[make_app(1.0, 2.0) for _ in range(3)])
    strategy, through = secure_strategy(nodes)
    train(strategy, through)
    assert all("secure_mod, appeal_mod" in event.why for event in strategy.rounds[0].events)
    assert len(strategy.rounds[0].events) == 3


def test_noise_has_the_deviation_that_the_accountant_is_told():
    own = Privacy(clip=2.0, noise_multiplier=1.5)
    rng = np.random.default_rng(0)
    zero = Tally({"w": np.zeros(20_000, np.float32)}, 0.0, 0.0, 0.0, 0.0)
    noisy = [rules.add_noise(own, zero, 0, rng) for _ in range(400)]
    unit = 1.5 * 2
    assert np.std(noisy[0].weighted["w"]) == pytest.approx(unit * 2.0 / 4, rel=0.03)
    for name, scale in (("weight", 1 / 4), ("satisfied", 1), ("declined", 1), ("told", 1)):
        found = np.std([getattr(sums, name) for sums in noisy])
        assert found == pytest.approx(unit * scale, rel=0.15)


def test_no_client_adds_more_than_the_sensitivity():
    rng = np.random.default_rng(1)
    for _ in range(200):
        clip, q = rng.uniform(0.1, 5), rng.uniform(0, 0.25)
        update = rng.normal(size=6)
        update *= min(1.0, clip / np.linalg.norm(update))
        took_part = np.concatenate([4 / clip * q * update, [4 * q, 1, 0, 1]])
        assert np.linalg.norm(took_part) <= rules.SENSITIVITY + 1e-12
    declined = np.array([0, 0, 0, 1, 1])
    assert np.linalg.norm(declined) <= rules.SENSITIVITY
    assert np.linalg.norm([4 / 1.0 * 0.25 * 1.0, 4 * 0.25, 1, 0, 1]) == rules.SENSITIVITY


def test_epsilon_is_that_of_the_gaussian_mechanism():
    """Balle and Wang, ICML 2018: δ(ε) of one release, solved here by bisection."""
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    from scipy.stats import norm

    def delta(eps, z):
        return norm.cdf(0.5 / z - eps * z) - math.exp(eps) * norm.cdf(-0.5 / z - eps * z)

    low, high = 0.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle, 2.0) > 1e-5 else (low, middle)
    own = Privacy(clip=1.0, noise_multiplier=2.0)
    assert rules.epsilon(own, 1.0, 1) == pytest.approx(high, rel=1e-3)
    # T releases of one mechanism are one with noise z/√T.
    assert rules.epsilon(own._replace(noise_multiplier=4.0), 1.0, 4) == pytest.approx(
        high, rel=1e-3
    )
    assert rules.epsilon(own, 0.1, 1) < high
    assert rules.epsilon(own, 1.0, 0) == 0
    assert rules.epsilon(Privacy(clip=1.0, noise_multiplier=1.0), 0.25, 20) == pytest.approx(
        8.1, abs=0.05
    ), "docs/flower.md says so"
    assert rules.epsilon(SECURE, 1.0, 3) is None


def test_private_training_steps_along_noisy_sums():
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    own = Privacy(clip=2.0, noise_multiplier=0.01)
    nodes = Nodes(*[make_app(1.0, 2.0, 0.25) for _ in range(40)])
    strategy = MaxFL(privacy=own, fraction_evaluate=0.0, decline_after=1)
    found = train(strategy, nodes, rounds=2)
    step = START["w"] - found[0][0]["w"]
    np.testing.assert_allclose(step, 0.25, atol=0.02)
    assert np.ptp(step) > 0, "there is noise"
    assert strategy.rounds[1].counts == Counts(40, 40, 40, 0, 0, 0)
    assert [a.dtype for a in found[0][0].values()] == [np.float32] * 2
    assert strategy._guarantee()["epsilon"] > 0


def test_without_signal_there_is_no_step():
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    own = Privacy(clip=2.0, noise_multiplier=50.0)
    strategy = MaxFL(privacy=own, fraction_evaluate=0.0)
    strategy._rng = np.random.default_rng(3)
    ((model, metrics),) = train(strategy, Nodes(*[make_app(1.0, 2.0) for _ in range(3)]))
    np.testing.assert_array_equal(model["w"], START["w"])
    assert 0 <= metrics["took_part"] <= 3


def test_nodes_are_drawn_one_by_one():
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    rng = np.random.default_rng(0)
    sizes = [len(rules.draw(list(range(100)), 0.3, rng)) for _ in range(300)]
    assert np.mean(sizes) == pytest.approx(30, abs=1)
    assert np.var(sizes) == pytest.approx(21, rel=0.3)
    own = Privacy(clip=1.0, noise_multiplier=1.0)
    strategy = MaxFL(privacy=own, fraction_evaluate=0.0, fraction_train=0.0001)
    nodes = Nodes(*[make_app(1.0, 2.0) for _ in range(3)])
    assert strategy.configure_train(1, arrays(START), ConfigRecord(), nodes) == []


def test_who_was_drawn_is_not_told():
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    own = Privacy(clip=1.0, noise_multiplier=1e-6)
    strategy = MaxFL(privacy=own, fraction_evaluate=0.0, fraction_train=0.5, decline_after=0)
    apps = [make_app(1.0, 2.0), make_app(3.0, 2.0), make_app(1.0, 2.0, math.nan), None]
    train(strategy, Nodes(*apps), rounds=8)
    for found in strategy.rounds:
        assert found.events == []
        assert (found.counts.asked, found.counts.failed, found.counts.rejected) == (2, 0, 0)


def test_estimates_can_be_counts():
    for satisfied, declined, told, expected in (
        (-3.0, 4.4, 10.2, (10, 6, 0, 4, 0, 0)), (99.0, -1.0, 99.0, (10, 10, 10, 0, 0, 0)),
        (5.0, 40.0, 7.9, (10, 0, 0, 8, 2, 0)), (3.0, 0.0, -2.0, (10, 0, 0, 0, 10, 0)),
    ):  # fmt: skip
        assert estimated(10, Tally({}, 0.0, satisfied, declined, told)) == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"privacy": Privacy(clip=-1.0, secure=True)}, "privacy.clip"),
        ({"privacy": Privacy(clip=1.0)}, "protects nothing"),
        ({"privacy": Privacy(clip=1.0, noise_multiplier=-1.0)}, "noise_multiplier"),
        ({"privacy": Privacy(clip=1.0, delta=0.0, secure=True)}, "privacy.delta"),
        ({"privacy": SECURE, "fraction_evaluate": 1.0}, "set fraction_evaluate=0"),
        ({"privacy": SECURE, "reveal": True}, "reveal=True"),
        ({"privacy": SECURE, "observe": True}, "observe=True"),
        ({"privacy": SECURE, "robust": aggregators.median()}, "robust="),
    ],
)
def test_settings_that_protect_nothing_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        MaxFL(**{"fraction_evaluate": 0.0} | options)


def test_rounding_is_counted_into_the_noise():
    """Secure sums are of whole numbers: a client's term can be that much longer."""
    plain, secure = (Privacy(clip=1.0, noise_multiplier=1.0, secure=s) for s in (False, True))
    assert rules._rounding(plain, 10**6, 2**22) == 0
    assert rules._rounding(secure, 10**6, 2**22) == pytest.approx(2 * math.sqrt(10**6 + 4) / 2**22)


def lost_at(stage, how):
    """A client that is lost in a stage of the protocol: it fails, or answers nonsense."""
    good = secure_app(1.0, 2.0)
    stages = []

    def answer(message, context):
        stages.append(message.content[RECORD_KEY_CONFIGS][Key.STAGE])
        if stages[-1] != stage:
            return good(message, context)
        if how == "fails":
            raise ValueError("it broke")
        if how == "empty":
            return Message(RecordDict(), reply_to=message)
        reply = good(message, context)
        told = reply.content[RECORD_KEY_CONFIGS]
        for name in list(told):
            told[name] = [b"nonsense"] * 4 if isinstance(told[name], list) else 1
        return reply

    return answer


@pytest.mark.parametrize("stage", Stage.all())
@pytest.mark.parametrize("how", ["fails", "empty", "nonsense"])
def test_a_client_lost_in_any_stage_harms_nobody_else(stage, how):
    good = [*CLIENTS, CLIENTS[0]]
    nodes = Watched(*[secure_app(*own) for own in good], lost_at(stage, how))
    strategy, through = secure_strategy(nodes)
    ((model, metrics),) = train(strategy, through)
    last = stage == Stage.UNMASK  # by then it is in the sum
    whole = [*good, (1.0, 2.0)] if last else good
    ((plain, _),) = train(MaxFL(), Nodes(*[make_app(*own) for own in whole]))
    assert (metrics["took_part"], metrics["failed"]) == (len(whole), 5 - len(whole))
    np.testing.assert_allclose(model["w"], plain["w"], atol=1e-5)
    (event,) = strategy.rounds[0].events
    assert event.node == 15


@pytest.mark.parametrize(
    ("app", "words"),
    [
        (lambda: secure_app(math.nan, 2.0), "its loss or requirement is no number"),
        (lambda: secure_app(1.0, 2.0, np.zeros((3, 1), np.float32)), "after training; want"),
    ],
)
def test_a_client_refuses_to_send_what_would_spoil_the_sum(app, words):
    nodes = Watched(*[secure_app(*own) for own in [*CLIENTS, CLIENTS[0]]], app())
    strategy, through = secure_strategy(nodes)
    train(strategy, through)
    (event,) = strategy.rounds[0].events
    assert (event.node, event.kind) == (15, "failed")
    assert words in event.why


def test_too_few_survivors_give_no_sums():
    broken = [secure_app(1.0, 2.0, math.nan) for _ in range(3)]
    nodes = Watched(secure_app(1.0, 2.0), *broken)
    messages = MaxFL(fraction_evaluate=0.0).configure_train(1, arrays(START), ConfigRecord(), nodes)
    assert secure_tally(nodes, messages, SECURE, None).sums is None
