"""Robust aggregation, liars and server optimisers, by hand and against the oracle."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import maxfl
from maxfl.core import aggregators, attacks, server_optimizers
from maxfl.core.aggregators import Limits, Rule, clip_norm, combine
from maxfl.core.algorithm import Parts, average
from maxfl.core.prng import Purpose, key
from support import oracle_server as reference
from support.two_clients import LINEAR, ONE_STEP, TWO, after


@partial(jax.jit, static_argnums=0)
def combined(rule, limits, updates, weights):
    """Through two leaves, as a model has them."""
    leaves = (updates[:, :1], updates[:, 1:].reshape(len(updates), -1, 1))
    return average(combine(rule, limits, leaves, weights))


def aggregate(rule, updates, weights, **limits):
    """The robust mean of updates [m, d]."""
    arrays = (jnp.asarray(a, jnp.float32) for a in (updates, weights))
    return np.concatenate([np.ravel(leaf) for leaf in combined(rule, Limits(**limits), *arrays)])


def draw(seed, clients):
    rng = np.random.default_rng(seed)
    q = rng.uniform(0.01, 0.25, clients) * (rng.random(clients) < rng.uniform(0.2, 1))
    q[0] = 0.1
    return rng.normal(size=(clients, 5)), q


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), trim=st.floats(0, 0.45))
def test_rules_agree_with_the_oracle(seed, trim):
    updates, q = draw(seed, 8)
    median = aggregate(Rule.MEDIAN, updates, q)
    np.testing.assert_allclose(median, reference.weighted_median(updates, q), atol=1e-5)
    trimmed = aggregate(Rule.TRIMMED_MEAN, updates, q, trim=trim)
    np.testing.assert_allclose(trimmed, reference.trimmed_mean(updates, q, trim), atol=1e-4)
    if (q > 0).sum() - 1 - 2 > 1:  # with one neighbour the nearest pair always ties
        for keep in (1, 3):
            kept = aggregate(Rule.KRUM, updates, q, liars=1, keep=keep)
            np.testing.assert_allclose(kept, reference.krum(updates, q, 1, keep), atol=1e-5)


def test_rules_by_hand():
    updates = np.array([[1.0, 1], [2, 2], [3, 3], [100, -100]])
    even = np.ones(4)
    np.testing.assert_allclose(aggregate(Rule.MEDIAN, updates, even), [2.5, 1.5])
    np.testing.assert_allclose(aggregate(Rule.MEDIAN, updates[:3], even[:3]), [2, 2])
    np.testing.assert_allclose(aggregate(Rule.MEDIAN, updates, [1, 1, 3, 1]), [3, 2.5])
    np.testing.assert_allclose(aggregate(Rule.TRIMMED_MEAN, updates, even, trim=0.25), [2.5, 1.5])
    # Five updates, one liar: 2 is nearest to its two nearest others.
    near = np.array([[1.0], [2.0], [3.5], [2.2], [50.0]]).repeat(2, 1)
    np.testing.assert_allclose(aggregate(Rule.KRUM, near, np.ones(5), liars=1), [2, 2])
    np.testing.assert_allclose(aggregate(Rule.KRUM, near, np.ones(5), liars=1, keep=2), [2.1, 2.1])


@pytest.mark.parametrize(
    ("rule", "limits"), [(Rule.TRIMMED_MEAN, {"trim": 0.0}), (Rule.KRUM, {"keep": 9})]
)
def test_rules_that_leave_nobody_out_are_the_weighted_mean(rule, limits):
    updates, q = draw(3, 7)
    np.testing.assert_allclose(aggregate(rule, updates, q, **limits), q @ updates / q.sum(), 1e-4)


@pytest.mark.parametrize("rule", [Rule.MEDIAN, Rule.TRIMMED_MEAN, Rule.KRUM])
def test_updates_that_are_not_finite_and_empty_rounds_do_no_harm(rule):
    updates, q = draw(4, 6)
    updates[0] = np.nan
    assert np.isfinite(aggregate(rule, updates, q, trim=0.2)).all()
    np.testing.assert_array_equal(aggregate(rule, updates, np.zeros(6)), np.zeros(5))


def test_clipping():
    update = Parts(jnp.array([3.0, 4.0]), jnp.float32(99))
    assert clip_norm(update, 1.0).model.tolist() == pytest.approx([0.6, 0.8])
    assert clip_norm(update, 1.0).more == 99
    assert clip_norm(update, 50.0).model.tolist() == [3.0, 4.0]
    assert clip_norm(jnp.zeros(2), 1.0).tolist() == [0.0, 0.0]
    assert clip_norm(jnp.array([1.0, jnp.inf]), 1.0).tolist() == [0.0, 0.0]


@pytest.mark.extras
def test_peers_agree():
    """Flower's own aggregation on the same inputs, where Flower is installed."""
    peer = pytest.importorskip("flwr.server.strategy.aggregate", reason="Flower not installed")
    rng = np.random.default_rng(0)
    updates = rng.normal(size=(9, 6))
    results = [([u], 1) for u in updates]
    np.testing.assert_allclose(
        aggregate(Rule.MEDIAN, updates, np.ones(9)), peer.aggregate_median(results)[0], atol=1e-6
    )
    for share in (0.15, 0.25):  # Flower cuts whole clients
        whole = int(share * 9) / 9
        np.testing.assert_allclose(
            aggregate(Rule.TRIMMED_MEAN, updates, np.ones(9), trim=whole),
            peer.aggregate_trimmed_avg(results, share)[0],
            atol=1e-6,
        )
    for keep in (0, 4):
        ours = aggregate(Rule.KRUM, updates, np.ones(9), liars=2, keep=max(keep, 1))
        np.testing.assert_allclose(ours, peer.aggregate_krum(results, 2, keep)[0], atol=1e-6)


@pytest.mark.extras
def test_qffl_agrees_with_flower():
    """One round of q-FedAvg by Flower's own code, where Flower is installed."""
    peer = pytest.importorskip("flwr.server.strategy.aggregate", reason="Flower not installed")
    q, rate = 2.0, 0.1
    w = np.zeros((1, 2))
    deltas, hs = [], []
    for delta in (np.array([[-0.05, 0.05]]), np.array([[0.1, -0.1]])):
        grads, loss = delta / rate, np.log(2)
        deltas.append([np.float_power(loss + 1e-10, q) * grads])
        norm = np.square(grads).sum()
        first = q * np.float_power(loss + 1e-10, q - 1) * norm
        hs.append(first + np.float_power(loss + 1e-10, q) / rate)
    theirs = peer.aggregate_qffl([w], deltas, hs)[0]
    ours, _ = after(maxfl.qffl(q))
    assert ours == pytest.approx(theirs[0, 0], rel=1e-5)


SIX = maxfl.Federation.from_clients(
    [([[1.0 + k]], [k % 2]) for k in range(6)], [([[1.0]], [0])] * 6, unseen=2
)


def run(method, liars, federation=SIX, rounds=3, **options):
    training = ONE_STEP._replace(rounds=rounds, cohort=4)
    options = {"requirement": maxfl.fixed(0.5), **options}
    return maxfl.simulate(federation, LINEAR, method, training, adversary=liars, **options)


def test_the_same_clients_lie_whatever_the_method():
    few, more = (np.asarray(attacks.liars(3, share, 40, 60)) for share in (0.1, 0.25))
    assert (few.sum(), more.sum()) == (4, 10)
    assert (few <= more).all()
    assert not more[40:].any(), "unseen clients do not lie"
    assert (np.asarray(attacks.liars(4, 0.25, 40, 60)) != more).any()
    history = run(maxfl.fedavg(), attacks.byzantine([0.25, 0.5]), rounds=1, seed=[3, 3])
    np.testing.assert_array_equal(history.lies[0], attacks.liars(3, 0.25, 4, 6))
    assert history.lies.sum(1).tolist() == [1, 2]


def test_a_sign_flip_by_hand():
    # Both clients of TWO; the liar's update counts with the other sign.
    for seed in range(4):
        training = ONE_STEP
        liars = attacks.byzantine(0.5, scale=-1.0)
        history = maxfl.simulate(TWO, LINEAR, maxfl.fedavg(), training, adversary=liars, seed=seed)
        honest = np.array([-0.05, 0.1])
        sent = np.where(history.lies[0], -honest, honest)
        got = float(np.asarray(history.params)[0, 0, 0])
        assert got == pytest.approx(-sent.mean(), rel=1e-5)


def test_liars_count_in_no_mean_and_never_leave():
    liars = attacks.byzantine(0.5, inflation=20.0, noise=0.5)
    history = run(maxfl.fedavg(), liars, rounds=4, participation=maxfl.opt_out(0), seed=1)
    lies = history.lies[0]
    honest = history.is_seen & ~lies
    accuracy = history.evaluation.test_accuracy[0, -1]
    assert history.accuracy("seen")[0, -1] == pytest.approx(accuracy[honest].mean())
    assert history.evaluation.willing[0][:, lies].all()
    present = history.asked.client[0][history.asked.took_part[0]]
    assert all((present == k).sum() == 4 for k in np.flatnonzero(lies))


@pytest.mark.parametrize("collude", [False, True])
def test_colluding_liars_add_the_same_noise(collude):
    # A feature of zero gives no gradient: what moves the model is the mean of the liars' noise.
    still = maxfl.Federation.from_clients([([[0.0]], [0])] * 4, [([[0.0]], [0])] * 4, classes=2)
    liars = attacks.byzantine(0.99, noise=1.0, collude=collude)
    history = run(maxfl.fedavg(), liars, still, rounds=1, seed=5)
    assert history.lies.all()
    keys = [key(5, Purpose.NOISE, 0, 0 if collude else k) for k in range(4)]
    noise = [attacks.corrupt(attacks.Attack(noise=1.0), k, jnp.zeros((1, 2))) for k in keys]
    np.testing.assert_allclose(history.params[0], -np.mean(noise, axis=0), rtol=1e-5)
    assert len(np.unique(noise)) == (2 if collude else 8)


def test_reversed_labels_reverse_the_gradient():
    history = maxfl.simulate(
        TWO, LINEAR, maxfl.fedavg(), ONE_STEP, adversary=attacks.byzantine(0.5, flip_labels=True)
    )
    # With two labels at w = 0, the reversed gradient is minus the gradient.
    sent = np.where(history.lies[0], -np.array([-0.05, 0.1]), [-0.05, 0.1])
    assert float(np.asarray(history.params)[0, 0, 0]) == pytest.approx(-sent.mean(), rel=1e-5)


def test_a_liar_gains_nothing_from_maxfl_and_ever_more_from_mwfed():
    """A loss reported 20 too high, among honest clients that are near their requirement."""
    liars = attacks.byzantine(0.25, inflation=20.0)

    def weights(method):
        history = run(method, liars, rounds=6, requirement=maxfl.fixed(0.8))
        lies, weight = history.lies[0], history.evaluation.weight[0]
        return weight[:, lies].mean(1), weight[:, history.is_seen & ~lies].min(1)

    liar, honest = weights(maxfl.maxfl())
    assert (liar < 1e-6 * honest).all()
    liar, honest = weights(maxfl.mwfed())
    assert liar[0] == honest[0]
    assert (np.diff(liar / honest) > 0).all(), "more weight every round"


def test_robust_rules_hold_off_a_liar_that_the_mean_follows():
    liars = attacks.byzantine(0.25, scale=-50.0)
    losses = {}
    for name, rule in (
        ("mean", None), ("clipped", aggregators.mean(clip=0.1)),
        ("median", aggregators.median()), ("krum", aggregators.krum(0)),
    ):  # fmt: skip
        history = run(maxfl.maxfl(epsilon=0.0), liars, rounds=8, robust=rule)
        losses[name] = float(history.mean(history.evaluation.train_loss)[0, -1])
    assert max(losses[n] for n in losses if n != "mean") < 0.5 * losses["mean"], losses


def test_optimisers_agree_with_the_oracle():
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(5, 3, 2))
    for optimiser, name in (
        (server_optimizers.momentum(0.8), "momentum"),
        (server_optimizers.adam(0.8, 0.95, 0.01), "adam"),
        (server_optimizers.yogi(0.8, 0.95, 0.01), "yogi"),
    ):
        params = jnp.zeros((3, 2))
        kept = server_optimizers.transformation(optimiser.kind, optimiser.rates).init(params)
        theirs = [(np.zeros((3, 2)), np.zeros(0))]
        state = {
            "momentum": reference.zeros_like(theirs), "adam": reference.adam_start(theirs),
            "yogi": reference.yogi_start(theirs),
        }[name]  # fmt: skip
        for d in directions:
            params, kept = jax.jit(server_optimizers.take_step, static_argnums=0)(
                optimiser.kind, optimiser.rates, 0.3, jnp.asarray(d, jnp.float32), params, kept
            )
            wide = [(d, np.zeros(0))]
            if name == "momentum":
                theirs, state = reference.momentum(theirs, wide, state, 0.3, 0.8)
            else:
                rule = getattr(reference, name)
                theirs, state = rule(theirs, wide, state, 0.3, 0.8, 0.95, 0.01)
            np.testing.assert_allclose(params, theirs[0][0], atol=1e-5)


def test_optimisers_compose_with_maxfl_and_rest_when_nobody_works():
    # Adam's first step is η d/(|d| + ε'), whatever the direction's length; MaxFL's is (+, −).
    rates = {"stability": 1e-6}
    w, _ = after(maxfl.maxfl(), optimiser=server_optimizers.adam(**rates))
    assert abs(w) == pytest.approx(1.0, rel=1e-2)
    moved, state = after(maxfl.fedavg(), rounds=3, optimiser=server_optimizers.momentum(0.9))
    plain, _ = after(maxfl.fedavg(), rounds=3)
    assert abs(moved) > abs(plain)
    # From round 1 on nobody is willing: momentum must not carry the model on.
    first, _ = after(maxfl.fedavg(), optimiser=server_optimizers.momentum(0.9))
    options = {"participation": maxfl.opt_out(1), "requirement": maxfl.fixed(1e-6)}
    later, _ = after(maxfl.fedavg(), rounds=3, optimiser=server_optimizers.momentum(0.9), **options)
    assert later == first
    assert int(np.asarray(jax.tree.leaves(state.optimiser)[0]).size) > 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: attacks.byzantine(1.0), "adversary.share"),
        (lambda: attacks.byzantine(noise=-1), "adversary.noise"),
        (lambda: aggregators.trimmed_mean(0.5), "server.trim"),
        (lambda: aggregators.krum(liars=1.5), "server.liars"),
        (lambda: aggregators.mean(clip=0), "server.clip"),
        (lambda: server_optimizers.adam(beta1=1.0), "server.beta1"),
        (lambda: maxfl.mwfed(0.5), "algorithm.factor"),
        (lambda: run(maxfl.fedavg(), attacks.byzantine(0.1)), "of 4 seen clients is nobody"),
        (lambda: run(maxfl.fedavg(), None, robust=aggregators.krum(1)), "more than 2 · liars"),
    ],
)
def test_bad_numbers_are_refused(make, words):
    with pytest.raises(maxfl.InputError, match=words):
        make()


def test_liars_alone_do_not_keep_a_run_alive():
    liars = attacks.byzantine(0.5, scale=-1.0)
    options = {"participation": maxfl.opt_out(1), "requirement": maxfl.fixed(1e-6)}
    history = run(maxfl.fedavg(), liars, rounds=5, **options)
    np.testing.assert_array_equal(history.stalled_from(), [2])


def test_many_at_once_agrees_with_one_by_one():
    """Memory, robust rules, liars and optimisers, vectorised and in turn."""
    liars = attacks.byzantine(0.25, noise=0.1, inflation=1.0)
    options = {"optimiser": server_optimizers.yogi(), "robust": aggregators.median(), "tuning": 2}
    one, many = (run(maxfl.scaffold(), liars, at_once=n, seed=[0, 1], **options) for n in (1, 4))
    np.testing.assert_allclose(one.params, many.params, atol=1e-5)
    np.testing.assert_allclose(
        one.scores("personal").test_loss, many.scores("personal").test_loss, atol=1e-5
    )
