"""Tuned and personal models: on training data only, for seen and unseen clients."""

import numpy as np
import pytest

import maxfl
from maxfl.core.prng import Purpose, key
from support import oracle
from support.oracle_runs import LR, STEPS, TRAINING, minibatch_gradient, own_data, trained


def test_tuned_models_agree_with_the_oracle(small, small_model):
    history = trained(small, small_model, maxfl.maxfl(), tuning=3)
    clients = own_data(small)
    gradient_of = minibatch_gradient(clients, 0, Purpose.TUNING)
    shared = [tuple(np.asarray(a)[0].astype(np.float64) for a in layer) for layer in history.params]
    test = [(small.test.x[a:b].astype(np.float64), small.test.y[a:b])
            for a, b in zip(small.test.offsets, small.test.offsets[1:], strict=False)]  # fmt: skip
    personal = history.scores("personal")
    for k in range(small.clients):
        w = shared
        for r in range(3):
            w = oracle.add_scaled(w, gradient_of(k, w, r + 1), -LR)
        assert personal.train_loss[0, -1, k] == pytest.approx(oracle.loss(w, *clients[k]), abs=1e-5)
        assert personal.test_loss[0, -1, k] == pytest.approx(oracle.loss(w, *test[k]), abs=1e-5)
        assert personal.test_accuracy[0, -1, k] == pytest.approx(oracle.accuracy(w, *test[k]))
        gap = personal.train_loss[0, -1, k] - history.thresholds.train[0, k]
        assert history.evaluation.weight[0, -1, k] == pytest.approx(oracle.weight(gap), abs=1e-6)


def test_weights_are_computed_after_tuning(small, small_model):
    """A round of MaxFL with tuning, replayed: q of the tuned loss, updates of the plain model."""
    history = maxfl.simulate(
        small, small_model, maxfl.maxfl(0.7, 0.02), TRAINING._replace(rounds=1), seed=11,
        requirement=maxfl.solo(multiple=1.2, steps=5), tuning=2,
    )  # fmt: skip
    clients = own_data(small)
    w = [tuple(map(np.asarray, layer)) for layer in small_model.init(key(11, Purpose.INIT))]
    tune, train = (minibatch_gradient(clients, 0, p) for p in (Purpose.TUNING, Purpose.TRAINING))
    deltas, q = [], []
    for k in history.asked.client[0, 0]:
        tuned = own = w
        for r in range(2):
            tuned = oracle.add_scaled(tuned, tune(k, tuned, r + 1), -LR)
        for r in range(STEPS):
            own = oracle.add_scaled(own, train(k, own, r), -LR)
        rho = history.thresholds.train[0, k]
        q.append(oracle.weight(oracle.loss(tuned, *clients[k]) - rho, 0.7))
        deltas.append(oracle.add_scaled(w, own, -1.0))
    np.testing.assert_allclose(history.asked.weight[0, 0], q, atol=1e-5)
    new = oracle.server_step(w, deltas, q, sum(q) + 0.02, 0.9)
    for ours, theirs in zip(history.params, new, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a[0], b, atol=1e-5)


def test_tuning_sweeps_and_zero_steps_are_the_global_model(small, small_model):
    history = trained(small, small_model, maxfl.fedavg(), tuning=[0, 5])
    personal, shared = history.scores("personal"), history.evaluation
    np.testing.assert_allclose(personal.train_loss[0], shared.train_loss[0], atol=1e-5)
    assert (personal.train_loss[1, -1] < shared.train_loss[1, -1]).mean() > 0.7
    assert history.gm_appeal("unseen", model="personal").shape == (2, 2)


def test_without_personal_models_there_is_nothing_to_ask_for(small, small_model):
    history = trained(small, small_model, maxfl.fedavg())
    assert not history.has_personal
    with pytest.raises(maxfl.InputError, match="no personal models"):
        history.accuracy("seen", "personal")
    with pytest.raises(maxfl.InputError, match="model = 'mine': want one of global, personal"):
        history.accuracy("seen", "mine")


def test_unseen_clients_of_ditto_use_the_global_model(small, small_model):
    history = trained(small, small_model, maxfl.ditto(0.5))
    personal, shared = history.scores("personal").test_loss, history.evaluation.test_loss
    np.testing.assert_allclose(personal[..., small.seen :], shared[..., small.seen :], atol=1e-5)
    assert abs(personal - shared)[0, -1, : small.seen].max() > 1e-3


def test_diverging_personal_models_mark_their_configuration(small, small_model):
    history = trained(small, small_model, maxfl.ditto([0.5, 1e4]))
    assert history.failed().tolist() == [False, True]
    assert np.isfinite(history.evaluation.train_loss).all()
