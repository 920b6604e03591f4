"""Runs that the oracle follows: their setting, their clients and their minibatches."""

import jax
import numpy as np

import maxfl
from maxfl.core.prng import Purpose, batch_key, key
from support import oracle

ROUNDS, COHORT, STEPS, BATCH, SEED, LR, SERVER_LR = 4, 3, 4, 5, 11, 0.2, 0.9
TRAINING = maxfl.Training(ROUNDS, COHORT, STEPS, BATCH, LR, SERVER_LR)


def trained(federation, model, algorithm, **options):
    requirement = maxfl.solo(multiple=1.2, steps=5)
    return maxfl.simulate(
        federation, model, algorithm, TRAINING, seed=SEED, requirement=requirement, **options
    )


def own_data(federation):
    """Each client's training data, in double precision."""
    cut = np.split(np.arange(len(federation.train.y)), federation.train.offsets[1:-1])
    train = federation.train
    return [(train.x[rows].astype(np.float64), train.y[rows]) for rows in cut]


def minibatch_gradient(clients, t, purpose=Purpose.TRAINING):
    """gradient_of(k, w, draw) of round t, on the engine's minibatches."""

    def gradient_of(k, w, draw):
        draws = key(SEED, purpose, t, k)
        bits = jax.random.bits(batch_key(draws, draw), (BATCH,), np.uint32)
        x, y = clients[k]
        rows = np.asarray(bits) % len(y)
        return oracle.gradient(w, x[rows], y[rows])

    return gradient_of
