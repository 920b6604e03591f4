"""Robust aggregation, by hand, against the oracle, and beside Flower's."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maxfl
from maxfl.core import aggregators, appeal, attacks
from maxfl.core.aggregators import (
    AggregationRule,
    AggregatorHParams,
    aggregate,
    clip_update,
)
from maxfl.core.algorithm import CompositeUpdate, average
from support import oracle_server as reference
from support.small import MODEL, PAPER, SMALL, TRAINING, train

MEDIAN, TRIMMED_MEAN, KRUM = (
    AggregationRule.MEDIAN, AggregationRule.TRIMMED_MEAN, AggregationRule.KRUM,
)  # fmt: skip


@partial(jax.jit, static_argnums=0)
def in_two_leaves(rule, hparams, updates, weights):
    """Aggregate updates of two leaves, as a model has them."""
    leaves = (updates[:, :1], updates[:, 1:].reshape(len(updates), -1, 1))
    return average(aggregate(rule, hparams, leaves, weights))


def robust_mean(rule, updates, weights, **hparams):
    """Return the robust mean of updates [m, d]."""
    arrays = (jnp.asarray(a, jnp.float32) for a in (updates, weights))
    leaves = in_two_leaves(rule, AggregatorHParams(**hparams), *arrays)
    return np.concatenate([np.ravel(leaf) for leaf in leaves])


def draw(seed, clients):
    rng = np.random.default_rng(seed)
    q = rng.uniform(0.01, 0.25, clients) * (rng.random(clients) < rng.uniform(0.2, 1))
    q[0] = 0.1
    return rng.normal(size=(clients, 5)), q


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), trim=st.floats(0, 0.45))
def test_rules_agree_with_the_oracle(seed, trim):
    updates, q = draw(seed, 8)
    by_weight = {"by_weight": True}
    median = robust_mean(MEDIAN, updates, q, **by_weight)
    np.testing.assert_allclose(median, reference.weighted_median(updates, q), atol=1e-5)
    trimmed = robust_mean(TRIMMED_MEAN, updates, q, trim_fraction=trim, **by_weight)
    np.testing.assert_allclose(trimmed, reference.trimmed_mean(updates, q, trim), atol=1e-4)
    if (q > 0).sum() - 1 - 2 > 1:  # with one neighbour the nearest pair always ties
        for selected in (1, 3):
            numbers = {"num_byzantine": 1, "num_selected": selected}
            mean = robust_mean(KRUM, updates, q, **numbers, **by_weight)
            np.testing.assert_allclose(mean, reference.krum(updates, q, 1, selected), atol=1e-5)


@pytest.mark.parametrize(("replies", "decides"), [(5, True), (4, False), (2, False), (0, False)])
def test_krum_decides_from_more_than_2f_2_replies(replies, decides):
    """F = 1: of four replies or fewer, one that is Byzantine could win."""
    updates = {"w": jnp.arange(6.0)[:, None]}
    q = jnp.asarray([0.2] * replies + [0.0] * (6 - replies))
    total = aggregate(KRUM, AggregatorHParams(num_byzantine=1), updates, q)
    assert float(total.weight) == pytest.approx(0.2 * replies if decides else 0)
    assert np.isfinite(total.update["w"]).all()
    assert bool((total.update["w"] != 0).any()) is decides


def test_krum_does_not_follow_an_update_whose_distance_overflows():
    """3e37 is a float32, its square is not: an infinite distance is no short one."""
    honest = np.array([[1.0, 2], [1.1, 2], [1, 2.1], [0.9, 2]])
    for huge in (3e37, 1e20):
        updates = np.vstack([honest, [[huge, -huge]]])
        chosen = robust_mean(KRUM, updates, np.ones(5), num_byzantine=1)
        assert np.abs(chosen - [1, 2]).max() < 0.2


def test_rules_by_hand():
    updates = np.array([[1.0, 1], [2, 2], [3, 3], [100, -100]])
    even = np.ones(4)
    np.testing.assert_allclose(robust_mean(MEDIAN, updates, even), [2.5, 1.5])
    np.testing.assert_allclose(robust_mean(MEDIAN, updates[:3], even[:3]), [2, 2])
    np.testing.assert_allclose(robust_mean(MEDIAN, updates, [1, 1, 3, 1], by_weight=True), [3, 2.5])
    trimmed = robust_mean(TRIMMED_MEAN, updates, even, trim_fraction=0.25)
    np.testing.assert_allclose(trimmed, [2.5, 1.5])
    # Five updates, one Byzantine: 2 is nearest to its two nearest others.
    near = np.array([[1.0], [2.0], [3.5], [2.2], [50.0]]).repeat(2, 1)
    krum = partial(robust_mean, KRUM, near, np.ones(5), num_byzantine=1)
    np.testing.assert_allclose(krum(), [2, 2])
    np.testing.assert_allclose(krum(num_selected=2), [2.1, 2.1])


@pytest.mark.parametrize(
    ("rule", "hparams"), [(TRIMMED_MEAN, {"trim_fraction": 0.0}), (KRUM, {"num_selected": 9})]
)
def test_rules_that_leave_nobody_out_are_the_weighted_mean(rule, hparams):
    updates, q = draw(3, 7)
    mean = robust_mean(rule, updates, q, **hparams, by_weight=True)
    np.testing.assert_allclose(mean, q @ updates / q.sum(), 1e-4)


def test_each_client_with_a_weight_has_one_vote():
    q = jnp.array([0.2, 0.25, 1e-9, 0.021, 0.0, 0.21, 0.0])
    updates = {"w": jnp.arange(7.0)[:, None]}
    total = aggregate(MEDIAN, AggregatorHParams(), updates, q)
    assert float(total.weight) == pytest.approx(0.681)
    assert float(total.update["w"][0]) == pytest.approx(0.681 * 2)  # of 0, 1, 2, 3, 5


@pytest.mark.parametrize("rule", [MEDIAN, TRIMMED_MEAN, KRUM])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("attackers", [1, 3])
def test_no_claimed_weight_buys_a_robust_rule(rule, temperature, spread, attackers):
    """Ten clients, of which some claim the largest weight there is, and push to 100."""
    rng = np.random.default_rng(attackers)
    gaps = np.abs(rng.normal(0, spread, 10))
    q = np.array([appeal.weight(g, 0.0, temperature) for g in gaps])
    updates = rng.normal(size=(10, 3))
    q[:attackers], updates[:attackers] = 0.25, 100.0
    hparams = {"trim_fraction": 0.3, "num_byzantine": 3, "num_selected": 2}
    found = robust_mean(rule, updates, q, **hparams)
    honest = updates[attackers:]
    assert (found >= honest.min(0) - 1e-5).all()
    assert (found <= honest.max(0) + 1e-5).all()


def test_by_weight_one_client_of_ten_has_more_than_half_of_it():
    q = np.array([0.25] + [appeal.weight(4.0, 0.0, 1.0)] * 9)
    assert q[0] / q.sum() > 0.6
    updates = np.array([[100.0]] + [[0.0]] * 9).repeat(2, 1)
    assert robust_mean(MEDIAN, updates, q, by_weight=True).tolist() == [100, 100]
    assert robust_mean(MEDIAN, updates, q).tolist() == [0, 0]


@pytest.mark.parametrize("rule", [MEDIAN, TRIMMED_MEAN, KRUM])
def test_updates_that_are_not_finite_and_empty_rounds_do_no_harm(rule):
    updates, q = draw(4, 6)
    updates[0] = np.nan
    assert np.isfinite(robust_mean(rule, updates, q, trim_fraction=0.2)).all()
    np.testing.assert_array_equal(robust_mean(rule, updates, np.zeros(6)), np.zeros(5))


def test_clipping():
    update = CompositeUpdate(jnp.array([3.0, 4.0]), jnp.float32(99))
    assert clip_update(update, 1.0).model.tolist() == pytest.approx([0.6, 0.8])
    assert clip_update(update, 1.0).more == 99
    assert clip_update(update, 50.0).model.tolist() == [3.0, 4.0]
    assert clip_update(jnp.zeros(2), 1.0).tolist() == [0.0, 0.0]
    assert clip_update(jnp.array([1.0, jnp.inf]), 1.0).tolist() == [0.0, 0.0]


@pytest.mark.extras
def test_peers_agree():
    """Flower's own aggregation on the same inputs, where Flower is installed."""
    peer = pytest.importorskip("flwr.server.strategy.aggregate", reason="Flower not installed")
    rng = np.random.default_rng(0)
    updates, even = rng.normal(size=(9, 6)), np.ones(9)
    results = [([u], 1) for u in updates]
    ours = robust_mean(MEDIAN, updates, even)
    np.testing.assert_allclose(ours, peer.aggregate_median(results)[0], atol=1e-6)
    for fraction in (0.15, 0.25):  # Flower cuts whole clients
        ours = robust_mean(TRIMMED_MEAN, updates, even, trim_fraction=int(fraction * 9) / 9)
        theirs = peer.aggregate_trimmed_avg(results, fraction)[0]
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    for selected in (0, 4):
        ours = robust_mean(KRUM, updates, even, num_byzantine=2, num_selected=max(selected, 1))
        np.testing.assert_allclose(ours, peer.aggregate_krum(results, 2, selected)[0], atol=1e-6)


@pytest.mark.slow
def test_robust_rules_hold_off_a_byzantine_client_that_the_mean_follows():
    attack = attacks.byzantine(0.17, update_scale=-50.0)
    losses = {}
    for name, aggregator in (
        ("mean", None), ("clipped", aggregators.mean(clip_norm=0.1)),
        ("median", aggregators.median()), ("krum", aggregators.krum(0)),
    ):  # fmt: skip
        history = train(
            maxfl.maxfl(epsilon=0.0), TRAINING._replace(rounds=16), attack=attack,
            aggregator=aggregator, requirement=maxfl.fixed(0.5, **PAPER),
        )  # fmt: skip
        losses[name] = float(history.mean(history.evaluation.judging_loss)[0, -1])
    assert max(losses[n] for n in losses if n != "mean") < 0.5 * losses["mean"], losses


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: aggregators.trimmed_mean(0.5), r"server\.trim_fraction"),
        (lambda: aggregators.krum(num_byzantine=1.5), r"server\.num_byzantine"),
        (lambda: aggregators.mean(clip_norm=0), r"server\.clip_norm"),
        (
            lambda: maxfl.Simulation(
                SMALL, MODEL, maxfl.fedavg(), TRAINING, aggregator=aggregators.krum(1)
            ),
            "more than 2 · num_byzantine",
        ),
        (
            lambda: maxfl.Simulation(
                SMALL, MODEL, maxfl.fedavg(), TRAINING, aggregator=aggregators.krum(0, 4)
            ),
            "server.num_selected = 4 of training.cohort = 3",
        ),
    ],
)
def test_bad_numbers_are_refused(make, words):
    with pytest.raises(maxfl.InputError, match=words):
        make()
