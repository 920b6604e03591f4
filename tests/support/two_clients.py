"""Two clients of one sample each, whose rounds can be worked by hand."""

import jax.numpy as jnp
import numpy as np

import maxfl
from support.eager import run_rounds

LINEAR = maxfl.Model(lambda _: jnp.zeros((1, 2)), lambda w, x, _=None: x @ w)
"""Logits x·w from one feature, from zero: every probability is ½ and every loss is ln 2."""
CLIENTS = [([[1.0]], [0]), ([[2.0]], [1])]
ONE_STEP = maxfl.Training(rounds=1, cohort=2, local_steps=1, batch_size=1, local_lr=0.1)

# Client 0 has x = 1, y = 0, client 1 has x = 2, y = 1. At w = 0 both losses are ln 2, and the
# gradients are g₀ = (−½, ½) and g₁ = (1, −1), so that Δ₀ = (−0.05, 0.05) and Δ₁ = (0.1, −0.1); only
# first components are written below.
LN2 = np.log(2)


def after(algorithm, rounds=1, steps=1, requirement=(1.0, 1.0), clients=None, **options):
    """Return the model's first component, and the run, after some rounds of both clients."""
    training = ONE_STEP._replace(rounds=rounds, local_steps=steps)
    run = run_rounds(algorithm, LINEAR, clients or CLIENTS, training, requirement, **options)
    return float(run.server.params[0, 0]), run


def first_of(states):
    """Return the first component of what each client keeps."""
    return [float(state[0, 0]) for state in states]


def gradients(w):
    """Return the gradients of both clients at (w, −w), by hand: x (p − y)."""
    first, second = 1 / (1 + np.exp(-2 * w)), 1 / (1 + np.exp(-4 * w))
    return first - 1, 2 * second
