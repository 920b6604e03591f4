"""A run is cut into blocks and periods; neither changes the model."""

import warnings

import jax
import numpy as np
import pytest

import maxfl
from maxfl.core.requirements.requirement import Solo
from maxfl.engine.programs import SKIP
from maxfl.engine.simulation import Simulation
from maxfl.engine.solo import SoloCache
from maxfl.engine.streaming.simulation import StreamingSimulation
from maxfl.engine.trainer import schedule
from support.small import MODEL, PAIR, SMALL, TRAINING, every_third, simulation, sweep, train


def test_a_schedule_by_hand():
    training = maxfl.Training(rounds=7, evaluate_every=3, checkpoint_every=6)
    assert schedule(training) == [[(0, 0), (0, 3)], [(3, 3), (6, 1)]]
    assert schedule(TRAINING._replace(rounds=4)) == [
        [(0, 0), (0, 1), (1, 1), (2, 1)], [(3, 1), *[(4, SKIP)] * 3],
    ]  # fmt: skip
    assert schedule(TRAINING._replace(rounds=1)) == [[(0, 0), (0, 1)]]


def test_evaluations_are_where_they_should_be():
    history = train(**every_third(*PAIR))
    np.testing.assert_array_equal(history.rounds, [0, 3, 6, 7])
    assert history.evaluation.judging_loss.shape == (2, 4, 8)
    assert history.cohorts.client_id.shape == (2, 7, 3)


def test_blocks_and_evaluations_do_not_change_the_model():
    one, other = train(**sweep(*PAIR)), train(**every_third(*PAIR))
    for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(one.cohorts.client_id, other.cohorts.client_id)


class StoppedError(Exception):
    """Raised before anything is compiled."""


@pytest.mark.parametrize(
    ("function", "kind"), [(maxfl.simulate, Simulation), (maxfl.stream, StreamingSimulation)]
)
def test_clients_that_can_not_hold_any_out_are_counted_and_named_once(function, kind, monkeypatch):
    def stop(_):
        raise StoppedError

    monkeypatch.setattr(kind, "start", stop)

    def words(**options):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", maxfl.TrainingWarning)
            with pytest.raises(StoppedError):
                function(SMALL, MODEL, maxfl.fedavg(), TRAINING, **options)
        assert all(each.filename == __file__ for each in said)
        return [str(each.message) for each in said]

    assert words() == [
        "1 of 8 clients have too few samples to hold any out (1): they judge by their training data"
    ]
    assert words(requirement=maxfl.solo(judge="training")) == []


def test_solo_minibatches_that_no_client_can_fill_are_told_of(monkeypatch):
    ones = np.ones(SMALL.clients, np.float32)
    monkeypatch.setattr(SoloCache, "get", lambda *_: Solo(ones, ones, (ones,)))
    chosen = maxfl.solo(batch_size=[8, 100_000], judge="training")
    words = r"batch_size = 100000, and the largest client .2. trains on 40 samples: .* 40 or less"
    with pytest.warns(maxfl.SpeedWarning, match=words):
        simulation(maxfl.fedavg(), requirement=chosen).prepare()
    simulation(maxfl.fedavg(), requirement=maxfl.solo(batch_size=40, judge="training")).prepare()
