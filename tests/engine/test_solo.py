"""Clients that train alone: against plain SGD, in any chunks, and never twice."""

import jax
import numpy as np
import pytest

import maxfl
from maxfl.core.prng import Purpose, batch_key, key
from maxfl.engine.solo import SoloCache, train_clients
from maxfl.engine.state import Data
from support import oracle
from support.oracle_runs import client_data
from support.small import MODEL, SMALL, simulation

STEPS, SEED, LR = 6, 3, 0.2


def prepared(algorithm, **options):
    return simulation(algorithm, requirement=maxfl.solo(steps=STEPS), **options)


def test_solo_training_agrees_with_the_oracle():
    solo, thresholds = prepared(maxfl.fedavg(), seed=SEED).prepare()
    train, test = client_data(), client_data(SMALL.test)
    for k in range(SMALL.clients):
        fresh = MODEL.init(key(SEED, Purpose.SOLO_INIT, client=k))
        params = [tuple(map(np.asarray, layer)) for layer in fresh]
        draws = key(SEED, Purpose.SOLO_TRAINING, client=k)
        bits = [jax.random.bits(batch_key(draws, r), (4,), np.uint32) for r in range(STEPS)]
        params = oracle.local_sgd(params, *train[k], np.stack(bits) % len(train[k][1]), LR)
        loss, accuracy = oracle.loss(params, *test[k]), oracle.accuracy(params, *test[k])
        assert solo.judging_loss[0, k] == pytest.approx(oracle.loss(params, *train[k]), abs=1e-5)
        assert solo.test_loss[0, k] == pytest.approx(loss, abs=1e-5)
        assert solo.test_metric[0, k] == pytest.approx(accuracy, abs=1e-6)
    np.testing.assert_array_equal(thresholds.judging, solo.judging_loss)
    np.testing.assert_array_equal(thresholds.test, solo.test_loss)


def test_chunks_of_clients_do_not_matter():
    session = prepared(maxfl.fedavg(), seed=SEED).session
    data = session.replicate(Data(SMALL.train, SMALL.test, SMALL.input_scaling))
    done = []

    def solo(slots):
        progress = lambda *stage: done.append(stage)  # noqa: E731
        return train_clients(
            session.solo_spec, data, session.solo_hparams, slots, None, progress
        )  # fmt: skip

    whole = solo(np.arange(8))
    twice = solo(np.tile(np.arange(8)[::-1], 2)[:11])  # a chunk of all, and one that is not full
    assert done == [("solo training", 8, 8), ("solo training", 8, 11), ("solo training", 11, 11)]
    for once, again in zip(*map(jax.tree.leaves, (whole, twice)), strict=True):
        np.testing.assert_allclose(again[:8], once[::-1], atol=1e-6)
        np.testing.assert_allclose(again[8:], once[:4:-1], atol=1e-6)
    few = solo(np.array([5, 2]))  # by another program
    np.testing.assert_allclose(few.judging_loss, whole.judging_loss[[5, 2]], atol=1e-6)


def test_known_results_are_not_trained_again():
    cache, trained = SoloCache(), []
    progress = lambda *stage: trained.append(stage)  # noqa: E731
    first = prepared(maxfl.fedavg(), seed=[1, 2]).prepare(progress, cache)
    assert len(trained) == 2
    second = prepared(maxfl.maxfl(), seed=[1, 2]).prepare(progress, cache)
    assert len(trained) == 2
    jax.tree.map(np.testing.assert_array_equal, first.solo, second.solo)
