"""Secure sums: what the server gets to see, and clients that are lost on the way."""

import math

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common import bytes_to_ndarray, ndarray_to_bytes
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

from maxfl.flower import MaxFL
from maxfl.flower.privacy import LEVELS
from maxfl.flower.round_log import format_round
from maxfl.flower.secagg_server import sum_securely
from maxfl.flower.sums import SCALARS, Counts
from support.flower_nodes import START, Nodes, arrays, make_app, train
from support.flower_secure import CLIENTS, SECURE, Watched, secure_app, secure_strategy

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def test_secure_sums_are_the_plain_ones():
    nodes = Watched(*[secure_app(*client) for client in CLIENTS])
    strategy, through = secure_strategy(nodes)
    ((model, metrics),) = train(strategy, through)
    ((plain, expected),) = train(MaxFL(), Nodes(*[make_app(*client) for client in CLIENTS]))
    for name in START:
        np.testing.assert_allclose(model[name], plain[name], atol=1e-5)  # it rounds
    assert dict(metrics) == dict(expected)


def test_the_temperature_follows_secure_sums():
    """Gaps at first and then how many are near are sums; those that decline are not in them."""
    near = [(loss, 2.0, 0.1) for loss in (1.9, 1.95, 2.5)]
    nodes = Watched(*[secure_app(*client) for client in near])
    strategy, through = secure_strategy(nodes, decline_after=1)
    train(strategy, through, rounds=3)
    plain = MaxFL(decline_after=1)
    train(plain, Nodes(*[make_app(*client) for client in near]), rounds=3)
    gap = (0.1 + 0.05 + 0.5) / 3
    scales = [0.0, gap, gap * math.exp(0.3 * (0.35 - 1))]
    assert [entry.solver.scale for entry in plain.rounds] == pytest.approx(scales)
    # Numbers are rounded in secure sums: gaps to 2·4·100·¼·2⁻²² each, counts to whole ones.
    assert [entry.solver.scale for entry in strategy.rounds] == pytest.approx(scales, abs=1e-4)
    assert plain.rounds[1].counts.declined == 1


def test_the_temperature_follows_secure_counts_to_the_same_bits():
    clients = [(loss, 2.0, 0.1) for loss in (1.9, 1.5, 2.5)]
    strategy, through = secure_strategy(Watched(*[secure_app(*c) for c in clients]), scale=0.3)
    train(strategy, through, rounds=3)
    plain = MaxFL(scale=0.3)
    train(plain, Nodes(*[make_app(*client) for client in clients]), rounds=3)
    assert [entry.solver for entry in strategy.rounds] == [entry.solver for entry in plain.rounds]


def test_a_gap_that_is_too_large_for_secure_sums_counts_as_the_largest():
    nodes = Watched(*[secure_app(1e9, 2.0) for _ in range(3)])
    strategy, through = secure_strategy(nodes)
    train(strategy, through, rounds=2)
    assert strategy.rounds[1].solver.scale == pytest.approx(100.0, rel=1e-4)


def test_the_server_sees_neither_weights_nor_updates():
    nodes = Watched(*[secure_app(1.0, 2.0) for _ in range(3)])
    strategy, through = secure_strategy(nodes)
    train(strategy, through, rounds=2)
    assert len(nodes.seen) == 2 * 4 * 3  # two rounds of four stages
    for reply in nodes.seen:
        content = reply.content
        metrics = {n: v for record in content.metric_records.values() for n, v in record.items()}
        assert metrics in ({}, {"num_examples": 1})
        assert not any(len(record) for record in content.array_records.values())
    masked = [reply.content[RECORD_KEY_CONFIGS][Key.MASKED_PARAMETERS] for reply in nodes.seen[6:9]]
    assert len({tuple(vectors) for vectors in masked}) == 3, (
        "the same terms, each behind another mask"
    )


def test_who_declines_is_hidden_in_the_sum():
    nodes = Watched(*[secure_app(*client) for client in CLIENTS])
    strategy, through = secure_strategy(nodes, decline_after=0)
    ((model, metrics),) = train(strategy, through)
    assert (metrics["participated"], metrics["declined"], metrics["satisfied"]) == (1, 2, 1)
    assert not any(reply.has_error() for reply in nodes.seen)
    q = 0.25  # of everybody, while gaps are not known
    np.testing.assert_allclose(model["b"], 0.5 - q * 0.25 / (q + 0.1), atol=1e-5)
    assert strategy.rounds[0].events == []


def test_a_client_that_fails_is_left_out_of_the_sum():
    nodes = Watched(*[secure_app(*client) for client in CLIENTS], secure_app(1.0, 2.0, math.nan))
    strategy, through = secure_strategy(nodes)
    ((model, metrics),) = train(strategy, through)
    ((plain, _),) = train(MaxFL(), Nodes(*[make_app(*client) for client in CLIENTS]))
    assert (metrics["participated"], metrics["failed"]) == (3, 1)
    np.testing.assert_allclose(model["w"], plain["w"], atol=1e-5)


def test_a_sum_of_one_is_no_secret():
    nodes = Watched(secure_app(1.0, 2.0))
    strategy, through = secure_strategy(nodes, min_available_nodes=1, min_train_nodes=1)
    ((model, metrics),) = train(strategy, through)
    np.testing.assert_array_equal(model["w"], START["w"])
    assert nodes.seen == []
    assert metrics["failed"] == 1


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
        record = reply.content[RECORD_KEY_CONFIGS]
        for name in list(record):
            record[name] = [b"nonsense"] * 4 if isinstance(record[name], list) else 1
        return reply

    return answer


@pytest.mark.parametrize("stage", Stage.all())
@pytest.mark.parametrize("how", ["fails", "empty", "nonsense"])
def test_a_client_lost_in_any_stage_harms_nobody_else(stage, how):
    good = [*CLIENTS, CLIENTS[0]]
    nodes = Watched(*[secure_app(*client) for client in good], lost_at(stage, how))
    strategy, through = secure_strategy(nodes)
    ((model, metrics),) = train(strategy, through)
    last = stage == Stage.UNMASK  # by then it is in the sum
    whole = [*good, (1.0, 2.0)] if last else good
    ((plain, _),) = train(MaxFL(), Nodes(*[make_app(*client) for client in whole]))
    assert (metrics["participated"], metrics["failed"]) == (len(whole), 5 - len(whole))
    np.testing.assert_allclose(model["w"], plain["w"], atol=1e-5)
    (event,) = strategy.rounds[0].events
    assert event.node == 15


def test_too_few_survivors_give_no_sums():
    broken = [secure_app(1.0, 2.0, math.nan) for _ in range(3)]
    nodes = Watched(secure_app(1.0, 2.0), *broken)
    messages = MaxFL(temperature=1.0, fraction_evaluate=0.0).configure_train(
        1, arrays(START), ConfigRecord(), nodes
    )
    assert sum_securely(nodes, messages, SECURE, None).sums is None


class Attacker:
    """A client that adds what it likes to its masked term: whole numbers, modulo 2³²."""

    def __init__(self, draw):
        self.good, self.draw, self.stage = secure_app(1.0, 2.0), draw, None

    def __call__(self, message, context):
        self.stage = message.content[RECORD_KEY_CONFIGS][Key.STAGE]
        reply = self.good(message, context)
        if self.stage == Stage.COLLECT_MASKED_VECTORS:
            record = reply.content[RECORD_KEY_CONFIGS]
            record[Key.MASKED_PARAMETERS] = [
                ndarray_to_bytes((bytes_to_ndarray(data) + added) % 2**32)
                for data, added in zip(record[Key.MASKED_PARAMETERS], self.draw(), strict=True)
            ]
        return reply


def steps(number):
    """So many steps of rounding as the number is, of C = 2: the span is ½ to both sides."""
    return np.int64(round(number * LEVELS))


def adding(*, w=0.0, weight=0.0, satisfied=0.0, declined=0.0, responded=0.0, near=0.0, gaps=0.0,
           factor=0):  # fmt: skip
    """An attacker by what it adds to the sums, after its honest term."""
    quarters = (satisfied, declined, responded, near, gaps / 100)
    scalars = np.array([steps(weight), *(steps(count / 4) for count in quarters)])
    return Attacker(lambda: [np.int64(factor), steps(w), np.int64(0), scalars])


def attacked(attacker, privacy=SECURE, **options):
    nodes = Watched(*[secure_app(*client) for client in CLIENTS], attacker)
    strategy = MaxFL(privacy=privacy, fraction_evaluate=0.0, **options)
    ((model, _),) = train(strategy, strategy.training_grid(nodes))
    (entry,) = strategy.rounds
    return entry, math.sqrt(sum(float(((START[n] - model[n]) ** 2).sum()) for n in START))


def test_an_attacker_that_adds_nothing_is_honest():
    entry, length = attacked(adding())
    assert entry.no_step == ""
    assert length > 0


@pytest.mark.parametrize(
    ("terms", "bound"),
    [
        ({"weight": -1.0999999}, "0 ≤ Σ q ≤ n/4"),  # all weigh ¼: 1 - 1.1 + ε is next to 0
        ({"weight": 1e-3}, "0 ≤ Σ q ≤ n/4"),
        ({"w": 3.0}, "‖Σ q Δ‖ ≤ C Σ q"),
        ({"responded": 0.01}, "responded ≤ n"),
        ({"responded": -3.0}, "0 ≤ satisfied + declined ≤ responded"),
        ({"declined": -1.0}, "0 ≤ satisfied + declined ≤ responded"),
        ({"near": 5.0}, "0 ≤ near ≤ responded"),
        ({"gaps": 401.0}, "0 ≤ Σ gaps ≤ G n"),
        ({"gaps": -40.0}, "0 ≤ Σ gaps ≤ G n"),
    ],
)
def test_sums_that_honest_clients_can_not_have_are_not_applied(terms, bound):
    entry, length = attacked(adding(**terms))
    assert length == 0
    assert entry.no_step == f"the secure sums break {bound}, which honest clients keep"
    assert entry.counts == Counts(4, rejected=4)
    assert any(entry.no_step in line for line in format_round(entry))


def test_nobody_weighs_more_by_claiming_so():
    """Flower would divide everybody's sum by the weights that clients claim."""
    _, honest = attacked(adding())
    for factor in (-4 * LEVELS, -2 * LEVELS, 1, 100 * LEVELS):
        entry, length = attacked(adding(factor=factor))
        assert entry.no_step == ""
        assert length == pytest.approx(honest, abs=1e-5)


def draw_anything(rng):
    def draw():
        size = 2.0 ** rng.uniform(0, 33)
        return [rng.integers(-size, size, shape) for shape in ((1,), (3,), (1, 1), (SCALARS,))]

    return draw


def test_no_attack_on_noisy_sums_makes_a_longer_step():
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    privacy, taken = SECURE._replace(noise_multiplier=0.05), 0
    draw = draw_anything(np.random.default_rng(1))
    for _ in range(15):
        options = {"scale": 0.5, "epsilon": 1e-9, "server_lr": 0.5}
        entry, length = attacked(Attacker(draw), privacy, **options)
        assert length <= 2.0 * 0.5 * (1 + 1e-5), entry
        taken += length > 0
    assert 0 < taken < 15


def test_no_attack_makes_a_longer_step_than_an_honest_one():
    """C·η_g, whatever is added: anything modulo 2³², and what keeps the bounds by a hair."""
    rng = np.random.default_rng(0)
    anything = draw_anything(rng)

    def plausible():
        """Weights down to nothing, with an update that is as long as rounding can excuse."""
        weight = np.array([-steps(1.0) + rng.integers(-1, 4), *[0] * (SCALARS - 1)])
        theirs = steps(0.25 * (0.25 - 0.5 + 0.1 + 0.5))
        w, b = (rng.integers(-6, 6, shape) - theirs for shape in ((3,), (1, 1)))
        return [np.int64(0), w, b, weight]

    taken = 0
    for draw in [anything] * 15 + [plausible] * 15:
        entry, length = attacked(Attacker(draw), epsilon=1e-9, server_lr=0.5)
        assert length <= 2.0 * 0.5 * (1 + 1e-5), entry
        taken += length > 0
    assert taken > 2, "some of them are applied"
