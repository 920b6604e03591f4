"""Secure sums of several models: a slot for each, of which nobody sees who filled it."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

import maxfl
from maxfl.flower import MaxFL
from maxfl.flower.replies.arrays import stack
from maxfl.flower.secagg_mod import _scalars
from maxfl.flower.secure.bounds import bound_steps, wrong_portfolio
from maxfl.flower.secure.slots import pack, scalars_of, unpack
from maxfl.flower.sums import SCALARS, ModelSums, RoundSums
from support.flower_nodes import START, Nodes, make_app, train
from support.flower_runs import distance
from support.flower_secure import SECURE, Watched, secure_app, secure_strategy

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]

PORTFOLIO = maxfl.portfolio(3, patience=2)
START3 = stack([{"w": START["w"] + np.float32(s), "b": START["b"]} for s in (0, 6, 50)])
CLIENTS = [
    (distance(0.0), 3.0, 0.1), (distance(0.0), 0.1, 0.2), (distance(0.0), 1.5, 0.1),
    (distance(9.0), 3.0, -0.1),
]  # fmt: skip
"""Loss, requirement and change of each."""
OTHERS = [
    *[(distance(0.0), 3.0, 0.1)] * 3, (distance(9.0), 0.1, 0.2), (distance(9.0), 1.0, -0.1),
]  # fmt: skip
"""Such that model 1 is the donor, though most clients train model 0."""


def test_what_is_packed_is_unpacked():
    one = pack(_scalars(0.2, satisfied=1, near=1.0, gap=2.0), 3, 1, 0.5)
    two = pack(_scalars(0.1, near=0.5, gap=1.0), 3, 2, 1e9)
    three = pack(_scalars(0.1), 3, 2, 2.0)
    satisfied = pack(_scalars(0.1, satisfied=1), 3, 0)
    away = pack(_scalars(0.0, declined=1), 3)
    assert len(one) == len(away) == scalars_of(3) == 4 * 3 + 5
    assert scalars_of(1) == SCALARS == len(_scalars(0.0))
    assert max(one.max(), two.max()) <= 0.25
    found = unpack(one + two + three + satisfied + away, 3)
    np.testing.assert_allclose(found.weights, [0.1, 0.2, 0.2])
    np.testing.assert_allclose(found.clients, [1, 1, 2])
    np.testing.assert_allclose(4 * np.array(found.rest), [2, 1, 5, 1.5, 0.03])
    np.testing.assert_allclose(found.unmet, [0, 1, 2])
    np.testing.assert_allclose(found.unmet_gaps, [0, 0.5, 100 + 2])


@pytest.mark.parametrize(
    ("clients", "options", "trained"),
    [
        (CLIENTS, {"temperature": 5.0}, [[3, 1, 0], [2, 1, 1]]),
        (CLIENTS, {}, [[3, 1, 0], [2, 1, 1]]),
        (OTHERS, {"temperature": 5.0}, [[3, 2, 0], [3, 1, 1]]),
    ],
    ids=["fixed", "auto", "few unmet"],
)
def test_secure_sums_train_the_same_models(clients, options, trained):
    """With a model that starts anew in the third round, and nothing seen of single clients."""
    nodes = Watched(*[secure_app(*client) for client in clients])
    strategy, through = secure_strategy(nodes, portfolio=PORTFOLIO, **options)
    found = train(strategy, through, rounds=4, start=START3)
    plain = MaxFL(portfolio=PORTFOLIO, aggregator=maxfl.aggregators.mean(clip_norm=2.0), **options)
    expected = train(plain, Nodes(*[make_app(*c) for c in clients]), rounds=4, start=START3)
    counts = [list(entry.models) for entry in strategy.rounds]
    assert counts == [list(entry.models) for entry in plain.rounds]
    assert counts[1:3] == trained
    for name, w in expected[-1][0].items():
        np.testing.assert_allclose(found[-1][0][name], w, atol=1e-4)
    assert not any(reply.content.metric_records.get("metrics") for reply in nodes.seen)


def test_who_declines_trains_no_model():
    nodes = Watched(*[secure_app(*client) for client in CLIENTS])
    strategy, through = secure_strategy(
        nodes, portfolio=PORTFOLIO, temperature=5.0, decline_after=1, min_participants=0
    )
    train(strategy, through, rounds=2, start=START3)
    counts = strategy.rounds[1].counts
    assert (counts.participated, counts.declined) == (2, 2)
    assert list(strategy.rounds[1].models) == [1, 1, 0]


def test_too_few_clients_are_no_round():
    nodes = Watched(secure_app(*CLIENTS[0]))
    strategy, through = secure_strategy(
        nodes, portfolio=PORTFOLIO, min_available_nodes=1, min_train_nodes=1
    )
    ((models, _),) = train(strategy, through, start=START3)
    np.testing.assert_array_equal(models["w"], START3["w"])
    assert list(strategy.rounds[0].models) == [0, 0, 0]
    assert "secure sums" in strategy.rounds[0].no_step


def honest():
    """Sums of three clients, of which two trained model 0; one of these is satisfied."""
    sums = RoundSums({}, 0.5, 1.0, 0.0, 3.0, 1.0, 1.0)
    update = {"w": np.full(4, 0.1)}
    return sums, [ModelSums(update, 0.3, 2.0, 1.0, 1.5), ModelSums(update, 0.2, 1.0, 1.0, 0.5)]


def second(**changes):
    """Return what forges the sums of model 1."""
    return lambda models: [models[0], models[1]._replace(**changes)]


def test_honest_sums_keep_their_bounds():
    sums, portfolio = honest()
    assert wrong_portfolio(SECURE, sums, portfolio, 3, 2**22) == ""


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        # No more than trained this model, though others could be.
        (second(unmet=2.0), "unmet ≤ clients"),
        (second(unmet=-1.0), "unmet ≤ clients"),
        (second(unmet=float("nan")), "unmet ≤ clients"),
        (second(unmet_gaps=101.0), "unmet gaps"),
        (second(unmet=0.0), "unmet gaps"),
        (second(unmet_gaps=-1.0), "unmet gaps"),
        (second(unmet_gaps=float("nan")), "unmet gaps"),
        (second(clients=3.0), "Σ client"),
        (lambda m: [m[0]._replace(clients=4.0), m[1]._replace(clients=-1.0)], "0 ≤ clients of"),
        (second(clients=float("nan")), "clients of each"),
        (second(weight=0.0), "C Σ q"),
        (lambda m: [m[0]._replace(update={"w": np.full(4, 1.0)}), m[1]], "C Σ q"),
    ],
)  # fmt: skip
def test_sums_that_honest_clients_can_not_have_are_not_applied(forge, words):
    sums, portfolio = honest()
    assert words in wrong_portfolio(SECURE, sums, forge(portfolio), 3, 2**22)


def test_weights_are_bounded_over_all_models():
    sums, portfolio = honest()
    forged = [each._replace(weight=0.5) for each in portfolio]
    assert "Σ q ≤ n/4" in wrong_portfolio(SECURE, sums._replace(weight=1.0), forged, 3, 2**22)


def test_no_models_step_is_longer_than_the_clip():
    _, portfolio = honest()
    long = ModelSums({"w": np.full(4, 5.0)}, 0.1, 1.0)
    bounded = bound_steps(SECURE, 0.1, [portfolio[0], long])
    np.testing.assert_array_equal(bounded[0].update["w"], 0.1)
    assert np.linalg.norm(bounded[1].update["w"]) == pytest.approx(2.0 * 0.2)
