"""How clients train alone."""

import numpy as np

import maxfl
from maxfl.core.requirements.solo_training import SoloTraining
from support.small import PAPER


def test_clients_train_alone_by_rates_of_their_own():
    plain = maxfl.solo().training
    assert plain == SoloTraining((100,), (0.1, 0.01, 0.001), (32,))
    assert not plain.follows_training
    many = maxfl.solo(steps=[5, 10], local_lr=0.5, batch_size=(4, 8)).training
    assert [*many.ways] == [(5, 0.5, 4), (5, 0.5, 8), (10, 0.5, 4), (10, 0.5, 8)]
    assert not many.follows_training
    for options in ({"local_lr": "training"}, {"batch_size": "training"}):
        assert maxfl.fixed(1.0, **options).training.follows_training
    assert [*maxfl.solo(**PAPER).training.ways] == [(100, None, None)]


def test_minibatches_of_the_default_size_are_never_too_large():
    sizes, names = np.array([3, 5]), np.array(["a", "b"])
    assert maxfl.solo().training.wasteful_batches(sizes, names) == []
    (words,) = maxfl.solo(batch_size=[8, 33]).training.wasteful_batches(sizes, names)
    assert "batch_size = 33, and the largest client (b) trains on 5 samples" in words
    assert "32 or less" in words
    assert maxfl.solo(**PAPER).training.wasteful_batches(sizes, names) == []
