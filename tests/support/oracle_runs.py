"""Runs that the oracle follows: their setting, their clients and their minibatches."""

import jax
import numpy as np

import maxfl
from maxfl.core.prng import Purpose, batch_key, key
from support import oracle, small

SEED, LR, SERVER_LR, STEPS = 11, 0.2, 0.9, 4
TRAINING = small.TRAINING._replace(rounds=4, local_steps=STEPS, local_lr=LR, server_lr=SERVER_LR)


def trained(algorithm, training=TRAINING, **options):
    """Train the small federation in the engine."""
    return small.train(algorithm, training, seed=SEED, **options)


def initial_params():
    """Return the model that a run begins with, as the oracle has it."""
    return [tuple(map(np.asarray, layer)) for layer in small.MODEL.init(key(SEED, Purpose.INIT))]


def final_params(history, configuration=0):
    """Return the model that a run ended with, as the oracle has it."""
    return [
        tuple(np.asarray(a)[configuration].astype(np.float64) for a in layer)
        for layer in history.params
    ]


def assert_params(history, expected, configuration=0, atol=1e-5):
    """Compare the final model of a configuration with the oracle's."""
    for layer, theirs in zip(final_params(history, configuration), expected, strict=True):
        for a, b in zip(layer, theirs, strict=True):
            np.testing.assert_allclose(a, b, atol=atol)


def client_data(samples=small.SMALL.train):
    """Return each client's samples, in double precision."""
    rows = np.split(np.arange(len(samples.y)), samples.offsets[1:-1])
    return [(samples.x[r].astype(np.float64), samples.y[r]) for r in rows]


def participants(history, t, configuration=0):
    """Return the clients that participated in round t."""
    cohorts = history.cohorts
    present = cohorts.participated[configuration, t]
    return [int(k) for k in cohorts.client_id[configuration, t][present]]


def minibatch(t, k, size, draw, purpose=Purpose.TRAINING):
    """Return the rows of minibatch ``draw`` of client k in round t, as the documents define it."""
    draw_key = batch_key(key(SEED, purpose, t, k), draw)
    bits = jax.random.bits(draw_key, (small.TRAINING.batch_size,), np.uint32)
    return np.asarray(bits) % size


def minibatches(t, k, size):
    """Return the rows of all minibatches of client k in round t, [τ, b]."""
    return np.stack([minibatch(t, k, size, draw) for draw in range(STEPS)])


def minibatch_gradient(clients, t, purpose=Purpose.TRAINING):
    """Return gradient_of(k, w, draw) of round t, on the engine's minibatches."""

    def gradient_of(k, w, draw):
        x, y = clients[k]
        rows = minibatch(t, k, len(y), draw, purpose)
        return oracle.gradient(w, x[rows], y[rows])

    return gradient_of


def client_deltas(w, clients, cohort, t):
    """Return Δ_k of a cohort in round t."""
    batches = [minibatches(t, k, len(clients[k][1])) for k in cohort]
    return oracle.client_deltas(w, clients, cohort, batches, LR)


def assert_rounds(algorithm, step):
    """Train in the engine, and replay it in NumPy with the same cohorts and minibatches.

    ``step(w, state, common, rho)`` is a round of the oracle: it returns the new model and state.

    Returns:
        The history, and the state after the last round.
    """
    history = trained(algorithm)
    clients = client_data()
    w, state = initial_params(), None
    rho = history.thresholds.judging[0].astype(np.float64)
    seen = clients[: small.SMALL.seen]
    for t in range(TRAINING.rounds):
        common = (seen, participants(history, t), minibatch_gradient(clients, t), STEPS, LR)
        w, state = step(w, state, (*common, SERVER_LR), rho)
    assert_params(history, w)
    return history, state


def assert_is_fedavg(algorithm, rate=LR):
    """Compare a method, where it should be FedAvg with some rate, with FedAvg."""
    plain = trained(maxfl.fedavg(), TRAINING._replace(local_lr=rate))
    assert_params(trained(algorithm), final_params(plain), atol=2e-5)
