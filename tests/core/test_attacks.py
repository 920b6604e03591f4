"""Byzantine clients: who they are, what they send and report, and what they gain by it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core import attacks
from maxfl.core.prng import Purpose, key
from support import oracle
from support.oracle_runs import (
    SEED,
    SERVER_LR,
    TRAINING,
    assert_params,
    client_data,
    client_deltas,
    initial_params,
    participants,
    trained,
)
from support.small import MODEL, PAPER, SMALL, simulation, train

EPSILON = 0.02
METHOD = maxfl.maxfl(0.7, EPSILON)
MOMENTUM = maxfl.server_optimizers.momentum()
"""Where clients opt out, so that the test of momentum has the same program."""


@pytest.mark.slow
def test_the_same_clients_are_byzantine_whatever_the_method():
    few, more = (np.asarray(attacks.byzantine_clients(3, share, 40, 60)) for share in (0.1, 0.25))
    assert (few.sum(), more.sum()) == (4, 10)
    assert (few <= more).all()
    assert not more[40:].any(), "unseen clients are not"
    assert (np.asarray(attacks.byzantine_clients(4, 0.25, 40, 60)) != more).any()
    session = simulation(METHOD, seed=[3, 3], attack=attacks.byzantine([0.25, 0.5])).session
    expected = attacks.byzantine_clients(3, 0.25, SMALL.seen, SMALL.clients)
    np.testing.assert_array_equal(session.is_byzantine[0], expected)
    assert session.is_byzantine.sum(1).tolist() == [2, 3]
    history = trained(METHOD, attack=attacks.byzantine(0.25))
    expected = attacks.byzantine_clients(SEED, 0.25, SMALL.seen, SMALL.clients)
    np.testing.assert_array_equal(history.is_byzantine[0], expected)


def flip_labels(clients, is_byzantine):
    """Return the clients' data with the labels of Byzantine ones reversed."""
    last = SMALL.classes - 1
    pairs = zip(clients, is_byzantine, strict=True)
    return [(x, last - y if flips else y) for (x, y), flips in pairs]


def weights(history, w, cohort):
    """Return q of a cohort at a model, by the oracle."""
    clients, rho = client_data(), history.thresholds.judging[0]
    return [oracle.weight(oracle.loss(w, *clients[k]) - rho[k], 0.7) for k in cohort]


def replay(history, clients, scale=1.0):
    """Return the model after rounds in which Byzantine clients send ``scale`` times their updates.

    They train on the data that are given.
    """
    w, is_byzantine, attacked = initial_params(), history.is_byzantine[0], False
    for t in range(TRAINING.rounds):
        cohort = participants(history, t)
        attacked |= is_byzantine[cohort].any()
        q = weights(history, w, cohort)
        np.testing.assert_allclose(history.cohorts.weight[0, t], q, atol=1e-5)
        sent = np.where(is_byzantine[cohort], scale, 1.0) * q
        deltas = client_deltas(w, clients, cohort, t)
        w = oracle.server_step(w, deltas, sent, sum(q) + EPSILON, SERVER_LR)
    assert attacked, "a Byzantine client should participate"
    return w


def test_a_flipped_sign_agrees_with_the_oracle():
    history = trained(METHOD, attack=attacks.byzantine(0.5, update_scale=-1.0))
    assert_params(history, replay(history, client_data(), scale=-1.0))


def test_reversed_labels_agree_with_the_oracle():
    history = trained(METHOD, attack=attacks.byzantine(0.5, flip_labels=True, collude=True))
    assert_params(history, replay(history, flip_labels(client_data(), history.is_byzantine[0])))


@pytest.mark.slow
@pytest.mark.parametrize("collude", [True, False])
def test_colluding_clients_add_the_same_noise(collude):
    # With reversed labels too where they collude, so that another test has the same program.
    attack = attacks.byzantine(0.99, noise_std=0.3, collude=collude, flip_labels=collude)
    history = trained(METHOD, attack=attack)
    assert history.is_byzantine[0, : SMALL.seen].all()
    cohort, w, clients = participants(history, 0), initial_params(), client_data()
    keys = [key(SEED, Purpose.NOISE, 0, 0 if collude else k) for k in cohort]
    zeros = jax.tree.map(jnp.zeros_like, MODEL.init(jax.random.key(0)))
    noise = [attacks.corrupt(attack.hparams, k, zeros) for k in keys]
    assert len(np.unique([layers[0].bias for layers in noise], axis=0)) == (1 if collude else 3)
    seen = flip_labels(clients, history.is_byzantine[0]) if collude else clients
    deltas = client_deltas(w, seen, cohort, 0)
    sent = [oracle.add_scaled(d, n, 1.0) for d, n in zip(deltas, noise, strict=True)]
    q = weights(history, w, cohort)
    w = oracle.server_step(w, sent, q, sum(q) + EPSILON, SERVER_LR)
    losses = [oracle.loss(w, *data) for data in clients]
    np.testing.assert_allclose(history.evaluation.judging_loss[0, 1], losses, atol=1e-4)


def test_byzantine_clients_count_in_no_mean_and_never_leave():
    attack = attacks.byzantine(0.5, loss_inflation=20.0, noise_std=0.5)
    with pytest.warns(maxfl.TrainingWarning, match="no client had a weight"):
        history = trained(
            METHOD, attack=attack, participation=maxfl.opt_out(0),
            requirement=maxfl.fixed(1e-6, **PAPER), server_optimizer=MOMENTUM,
        )  # fmt: skip
    is_byzantine = history.is_byzantine[0]
    honest = history.is_seen & ~is_byzantine
    accuracy = history.evaluation.test_metrics[0][0, -1]
    assert history.test_metric("seen")[0, -1] == pytest.approx(accuracy[honest].mean())
    assert history.evaluation.willing[0][:, is_byzantine].all()
    assert not history.evaluation.willing[0][:, honest].any()
    for t in range(TRAINING.rounds):
        assert sorted(participants(history, t)) == np.flatnonzero(is_byzantine).tolist()


def test_byzantine_clients_alone_do_not_keep_a_run_alive():
    history = trained(
        METHOD, attack=attacks.byzantine(0.5, update_scale=-1.0), participation=maxfl.opt_out(1),
        requirement=maxfl.fixed(1e-6, **PAPER), server_optimizer=MOMENTUM,
    )  # fmt: skip
    np.testing.assert_array_equal(history.stalled_from(), [2])


@pytest.mark.slow
def test_a_byzantine_client_gains_nothing_from_maxfl_and_ever_more_from_mwfed():
    """A loss reported 20 too high, among honest clients that are near their requirement."""

    def reported(method):
        """Return the history, and weights at each evaluation: Byzantine, and least honest."""
        history = train(
            method, attack=attacks.byzantine(0.25, loss_inflation=20.0),
            requirement=maxfl.fixed(1.5, **PAPER),
        )  # fmt: skip
        is_byzantine, weight = history.is_byzantine[0], history.evaluation.weight[0]
        honest = weight[:, history.is_seen & ~is_byzantine].min(1)
        return history, weight[:, is_byzantine].mean(1), honest

    _, byzantine, honest = reported(maxfl.maxfl())
    assert (byzantine < 1e-6 * honest).all()
    history, byzantine, honest = reported(maxfl.mwfed())
    assert byzantine[0] == honest[0]
    attacked = history.participated()[0, 1:, history.is_byzantine[0]].any(0)
    assert attacked.sum() > 2
    rises = np.diff(byzantine / honest) > 0
    np.testing.assert_array_equal(rises, attacked, "more weight whenever it participates")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: attacks.byzantine(1.0), r"attack\.fraction"),
        (lambda: attacks.byzantine(noise_std=-1), r"attack\.noise_std"),
        (lambda: trained(METHOD, attack=attacks.byzantine(0.05)), "of 6 seen clients is nobody"),
    ],
)
def test_bad_numbers_are_refused(make, words):
    with pytest.raises(maxfl.InputError, match=words):
        make()
