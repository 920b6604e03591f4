"""A run is cut into blocks and periods; neither changes the model."""

import jax
import numpy as np

import maxfl
from maxfl.engine.programs import SKIP
from maxfl.engine.trainer import schedule
from support.small import PAIR, TRAINING, every_third, sweep, train


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
