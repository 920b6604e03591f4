"""Clients that train alone: against plain SGD, in any chunks, and never twice."""

import jax
import numpy as np
import pytest

import maxfl
from maxfl.core.criterion import Criterion
from maxfl.core.judging import with_judging
from maxfl.core.prng import Purpose, batch_key, key
from maxfl.core.requirements.requirement import Solo
from maxfl.engine.solo import SoloCache, best_solo, train_clients
from maxfl.engine.state import Data
from support import oracle
from support.oracle_runs import client_data
from support.small import MODEL, PAPER, SMALL, TRAINING, simulation

STEPS, SEED, LR = 6, 3, 0.2


def prepared(algorithm, **options):
    return simulation(algorithm, requirement=maxfl.solo(steps=STEPS, **PAPER), **options)


def trained_alone(k, x, y, rate):
    """Return the model that a client trains alone, in plain NumPy."""
    fresh = MODEL.init(key(SEED, Purpose.SOLO_INIT, client=k))
    params = [tuple(map(np.asarray, layer)) for layer in fresh]
    draws = key(SEED, Purpose.SOLO_TRAINING, client=k)
    bits = [jax.random.bits(batch_key(draws, r), (4,), np.uint32) for r in range(STEPS)]
    return oracle.local_sgd(params, x, y, np.stack(bits) % len(y), rate)


def test_solo_training_agrees_with_the_oracle():
    solo, thresholds = prepared(maxfl.fedavg(), seed=SEED).prepare()
    train, test = client_data(), client_data(SMALL.test)
    for k in range(SMALL.clients):
        params = trained_alone(k, *train[k], LR)
        loss, accuracy = oracle.loss(params, *test[k]), oracle.accuracy(params, *test[k])
        assert solo.judging_loss[0, k] == pytest.approx(oracle.loss(params, *train[k]), abs=1e-5)
        assert solo.test_loss[0, k] == pytest.approx(loss, abs=1e-5)
        assert solo.test_metric[0, k] == pytest.approx(accuracy, abs=1e-6)
    np.testing.assert_array_equal(thresholds.judging, solo.judging_loss)
    np.testing.assert_array_equal(thresholds.test, solo.test_loss)


def test_of_several_rates_each_client_keeps_its_best_by_what_it_judges_by():
    rates = (2.0, 0.1)
    requirement = maxfl.solo(steps=STEPS, local_lr=rates, batch_size=4)
    solo, _ = simulation(maxfl.fedavg(), requirement=requirement, seed=SEED).prepare()
    federation = with_judging(SMALL, requirement.judging)
    parts = (federation.train, federation.judging, federation.test)
    chosen = []
    for k, (train, judged, test) in enumerate(zip(*map(client_data, parts), strict=True)):
        models = [trained_alone(k, *train, rate) for rate in rates]
        losses = [oracle.loss(params, *judged) for params in models]
        best = int(np.argmin(losses))
        chosen.append(best)
        assert solo.judging_loss[0, k] == pytest.approx(losses[best], abs=1e-5)
        assert solo.test_loss[0, k] == pytest.approx(oracle.loss(models[best], *test), abs=1e-5)
    assert {*chosen} == {0, 1}, "neither rate should suit all"


def way(judging, test, metric=()):
    """Return results of one way to train alone; accuracies on test data are its losses' tenth."""
    losses = (np.array(judging, np.float32), np.array(test, np.float32))
    decides = metric if metric == () else np.array(metric, np.float32)
    return Solo(*losses, (losses[1] / 10,), decides)


def test_the_best_of_several_models_is_whole():
    nan = np.nan
    ways = [way([1, 5, nan, nan, 2], [10, 20, 30, 40, 50]), way([2, 4, 9, nan, 2], [1, 2, 3, 4, 5])]
    found = best_solo(Criterion(), ways)
    np.testing.assert_array_equal(found.judging_loss, np.float32([1, 4, 9, nan, 2]))
    np.testing.assert_array_equal(found.test_loss, [10, 2, 3, 40, 50])  # of equals the first
    np.testing.assert_allclose(found.test_metric, [1, 0.2, 0.3, 4, 5])
    assert best_solo(Criterion(), ways[:1]) is ways[0]


def test_a_metric_says_which_model_is_the_best():
    ways = [way([1, 1], [1, 2], [0.5, 0.6]), way([9, 9], [3, 4], [0.7, np.nan])]
    more = best_solo(Criterion(0, higher_is_better=True), ways)
    np.testing.assert_allclose(more.judging_metric, [0.7, 0.6])
    np.testing.assert_array_equal(more.test_loss, [3, 2])
    less = best_solo(Criterion(0, higher_is_better=False), ways)
    np.testing.assert_allclose(less.judging_metric, [0.5, 0.6])
    assert len(best_solo(Criterion(), ways * 40).judging_loss) == 2


def test_chunks_of_clients_do_not_matter():
    session = prepared(maxfl.fedavg(), seed=SEED).session
    data = session.replicate(Data(SMALL.train, SMALL.test, SMALL.input_scaling))
    done = []

    def solo(slots):
        progress = lambda *stage: done.append(stage)  # noqa: E731
        return train_clients(
            session.solo_spec, data, session.one_by_one(session.solo_ways[0])[0], slots, None,
            progress,
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


@pytest.mark.parametrize(("rate", "trainings"), [((0.1, 0.01), 2), ("training", 2), (0.1, 1)])
def test_by_default_a_sweep_of_the_training_changes_no_requirement(rate, trainings):
    """Two rates and batch sizes of the training; each way to train alone is computed once."""
    done = []
    made = simulation(
        maxfl.fedavg(), TRAINING._replace(local_lr=[0.2, 0.05], batch_size=[4, 2]),
        requirement=maxfl.solo(steps=STEPS, local_lr=rate, batch_size=4), seed=SEED,
    )  # fmt: skip
    found = made.prepare(lambda *stage: done.append(stage)).thresholds
    assert len(done) == trainings
    assert done[-1] == ("solo training", 8 * trainings, 8 * trainings)
    same = (found.judging[0] == found.judging[1]).all()
    assert same == (rate != "training")
