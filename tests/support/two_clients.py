"""Two clients of one sample each, whose rounds can be worked by hand."""

import jax.numpy as jnp
import numpy as np

import maxfl

LINEAR = maxfl.Model(lambda _: jnp.zeros((1, 2)), lambda w, x, _=None: x @ w)
TWO = maxfl.Federation.from_clients(*[[([[1.0]], [0]), ([[2.0]], [1])]] * 2)
ONE_STEP = maxfl.Training(
    rounds=1, cohort=2, local_steps=1, batch_size=1, local_lr=0.1, evaluate_every=1, block=1
)
"""Blocks of one round, so that any number of rounds is one program."""

# Client 0 has x = 1, y = 0, client 1 has x = 2, y = 1. At w = 0 both losses are ln 2, and the
# gradients are g₀ = (−½, ½) and g₁ = (1, −1); only first components are written below.
LN2 = np.log(2)


def after(algorithm, rounds=1, **options):
    """First component of the model, and the state, after some rounds of both clients."""
    training = ONE_STEP._replace(rounds=rounds)
    simulation = maxfl.Simulation(TWO, LINEAR, algorithm, training, **options)
    state = simulation.start()
    for now, _ in simulation.blocks(simulation.prepare(), state):
        state = now
    return float(state.server.params[0, 0, 0]), state


def gradients(w):
    """Gradients of both clients at (w, −w), by hand: x (p − y)."""
    first, second = 1 / (1 + np.exp(-2 * w)), 1 / (1 + np.exp(-4 * w))
    return first - 1, 2 * second
