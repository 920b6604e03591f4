"""Which models go to whom, and what that costs."""

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

import maxfl
from maxfl.flower import MaxFL, split_models
from maxfl.flower.replies.arrays import stack
from maxfl.flower.server.offers import Offers, initial_models
from maxfl.utils.errors import InputError
from support.commands import ROOT
from support.flower_nodes import START, Nodes, arrays, make_app, train
from support.flower_runs import distance

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]

TWO = [START, {"w": START["w"] + np.float32(6), "b": START["b"]}]


class Watched(Nodes):
    """A grid that notes what goes out: the shape of w, and the only model of a message."""

    def __init__(self, *apps):
        super().__init__(*apps)
        self.sent = []

    def send_and_receive(self, messages, timeout=None):
        messages = sorted(messages, key=lambda message: message.metadata.dst_node_id)
        self.sent.append([
            (m.content["arrays"]["w"].numpy().shape, m.content["config"].get("maxfl-model"))
            for m in messages
        ])  # fmt: skip
        return super().send_and_receive(messages, timeout)


def grid():
    wants = (0.0, 3.0), (9.0, 3.0), (1.0, 3.0)
    return Watched(*[make_app(distance(target), rho, 0.1) for target, rho in wants])


def test_rounds_with_all_models():
    assert all(Offers().has_all(number) for number in range(1, 30))
    picked = Offers("picked", after=2, refresh=3)
    assert [r for r in range(1, 12) if picked.has_all(r)] == [1, 2, 5, 8, 11]


def test_what_it_saves_is_what_the_page_says():
    page = " ".join((ROOT / "docs" / "flower.md").read_text(encoding="utf-8").split())
    offers = Offers("picked", after=3, refresh=10)
    sent = sum(3 if offers.has_all(number) else 1 for number in range(1, 101))
    assert f'| `"picked"` | {sent} | 1.2 GB |' in page
    assert "`portfolio_after=3` and `portfolio_refresh=10`" in page
    assert offers == Offers("picked"), "these are the defaults"


def test_messages_are_as_long_as_the_models_in_them():
    """In bytes: K models down and one up, or one each way, and three each way in secure sums."""
    models = [{"w": np.full(10_000, j, np.float32)} for j in range(3)]
    sizes = {}

    class Weighed(Nodes):
        def send_and_receive(self, messages, timeout=None):
            messages = list(messages)
            replies = super().send_and_receive(messages, timeout)
            sizes.setdefault(options["portfolio_message"], []).append(
                [sum(len(a.data) for a in m.content["arrays"].values()) // 40_000
                 for m in (messages[0], replies[0])]
            )  # fmt: skip
            return replies

    for message in ("all", "picked"):
        options = {"portfolio_message": message, "portfolio_after": 1}
        nodes = Weighed(*[make_app(distance(target), 3.0) for target in (0.0, 1.0)])
        train(MaxFL(portfolio=maxfl.portfolio(3), **options), nodes, rounds=2, start=stack(models))
    assert sizes == {"all": [[3, 1], [3, 1]], "picked": [[3, 1], [1, 1]]}


def test_after_the_first_rounds_nodes_get_the_model_that_they_picked():
    portfolio, sent = maxfl.portfolio(2, patience=0), {}
    for message in ("all", "picked"):
        nodes = grid()
        strategy = MaxFL(
            portfolio=portfolio, temperature=5.0, portfolio_message=message, portfolio_after=1,
            portfolio_refresh=3,
        )  # fmt: skip
        found = train(strategy, nodes, rounds=5, start=stack(TWO))[-1][0]
        sent[message] = found, nodes.sent
    (every, with_all), (alone, with_one) = sent.values()
    all_models, one = ((2, 3), None), [((3,), 0), ((3,), 1), ((3,), 0)]
    assert with_all == [[all_models] * 3] * 5
    assert with_one == [[all_models] * 3, one, one, [all_models] * 3, one]
    # Nobody changes its mind here, so that both train the same models, to the last bit.
    for name, w in every.items():
        np.testing.assert_array_equal(alone[name], w)


def test_who_was_sent_one_model_can_not_train_another():
    def forged(message, context):
        reply = make_app(distance(0.0), 3.0)(message, context)
        if message.content["config"].get("maxfl-model") == 0:
            reply.content["metrics"]["maxfl-model"] = 1
        return reply

    strategy = MaxFL(
        portfolio=maxfl.portfolio(2, patience=0), portfolio_message="picked", portfolio_after=1
    )
    train(strategy, Nodes(*grid().apps.values(), forged), rounds=2, start=stack(TWO))
    (event,) = (e for e in strategy.rounds[1].events if e.kind == "rejected")
    assert event.reason == "maxfl-model is 1; expected 0, which it was sent"


def test_whose_reply_is_rejected_is_sent_all_models_again():
    """The model that it has may diverge on its data, and the others may not."""

    def failing(message, context):
        reply = make_app(distance(0.0), 3.0)(message, context)
        if message.content["config"].get("maxfl-model") == 0:
            reply.content["metrics"]["maxfl-weight"] = float("nan")
        return reply

    nodes = Watched(*grid().apps.values(), failing)
    strategy = MaxFL(
        portfolio=maxfl.portfolio(2, patience=0), temperature=5.0, portfolio_message="picked",
        portfolio_after=1, portfolio_refresh=100,
    )  # fmt: skip
    train(strategy, nodes, rounds=4, start=stack(TWO))
    all_models, one = ((2, 3), None), ((3,), 0)
    assert [round_[-1] for round_ in nodes.sent] == [all_models, one, all_models, one]
    assert [round_[0] for round_ in nodes.sent] == [all_models, one, one, one]


def test_a_model_starts_anew_for_who_was_sent_its_twin():
    """The vacant model is a copy of the donor, so who has the one has the other."""
    third = {"w": START["w"] + np.float32(50), "b": START["b"]}
    wants = (0.0, 3.0), (0.0, 0.1), (0.0, 1.5), (9.0, 3.0)
    found = {}
    for message in ("all", "picked"):
        nodes = Watched(*[make_app(distance(target), rho, 0.1) for target, rho in wants])
        strategy = MaxFL(
            portfolio=maxfl.portfolio(3, patience=2), temperature=5.0, portfolio_message=message,
            portfolio_after=1, portfolio_refresh=100,
        )  # fmt: skip
        train(strategy, nodes, rounds=4, start=stack([*TWO, third]))
        found[message] = [list(entry.models) for entry in strategy.rounds]
    # From then on only one that is sent all can change its mind.
    assert found["all"][:3] == found["picked"][:3]
    assert found["all"][1] == [3, 1, 0]
    assert found["all"][2] == [2, 1, 1]
    assert nodes.sent[2] == [((3,), 0), ((3,), 0), ((3,), 0), ((3,), 1)]


def test_who_had_a_model_that_starts_anew_is_sent_all():
    strategy = MaxFL(
        portfolio=maxfl.portfolio(2, patience=1), portfolio_message="picked", portfolio_after=1
    )
    nodes = grid()
    train(strategy, nodes, start=stack(TWO))
    known = strategy._models.known
    idle = known.state._replace(idle=known.state.idle.at[1].set(9), unmet_gap=jnp.float32(0.5))
    strategy._models.known = known._replace(state=idle)
    nodes.sent.clear()
    messages = strategy.configure_train(2, arrays(stack(TWO)), _config(), nodes)
    nodes.send_and_receive(messages)
    assert [only for _, only in nodes.sent[0]] == [0, None, 0]


def _config():
    from flwr.app import ConfigRecord

    return ConfigRecord()


def test_a_federation_starts_from_a_list_of_models():
    one, other = map(arrays, TWO)
    record = initial_models(2, [one, other])
    np.testing.assert_array_equal(record["w"].numpy(), [TWO[0]["w"], TWO[1]["w"]])
    for found, expected in zip(split_models(record), TWO, strict=True):
        np.testing.assert_array_equal(found["w"].numpy(), expected["w"])
        assert found["b"].numpy().shape == (1, 1)
    assert initial_models(1, one) is one
    for models, given, words in (
        (2, one, "give start.. a list of 2 ArrayRecords"),
        (3, [one, other], "a list of 2, and the portfolio has 3 models"),
        (2, [one, one], "all the same"),
        (2, [one, arrays({"w": START["w"]})], r"initial_arrays\[1\] has other arrays"),
        (1, [one, other], "several models need MaxFL.portfolio"),
    ):
        with pytest.raises(InputError, match=words):
            initial_models(models, given)


def test_single_numbers_have_a_place_in_a_portfolio():
    drawn = [arrays({"w": np.float32(1.5)}), arrays({"w": np.float32(2.5)})]
    record = initial_models(2, drawn)
    assert record["w"].numpy().shape == (2,)
    assert [one["w"].numpy().shape for one in split_models(record)] == [(), ()]
    with pytest.raises(InputError, match="not those of a portfolio"):
        split_models(arrays({"w": np.zeros((2, 3)), "b": np.zeros(3)}))
