"""Local optimizers against plain NumPy, on a quadratic whose gradient is a·w − b."""

import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl import local_optimizers
from maxfl.core.algorithm import descend

A, B = np.array([1.0, 3.0]), np.array([0.5, -2.0])
START, RATE, STEPS = np.array([2.0, -1.0]), 0.1, 5


def gradient(w, r, scale=1.0):
    return scale * (A * w - B + 0.1 * r)


def by_numpy(step):
    """Take steps ``w, memory = step(w, g, memory, t)``, t from 1."""
    w, memory = START, (0.0, 0.0)
    for r in range(STEPS):
        w, memory = step(w, gradient(w, r), memory, r + 1)
    return w


def sgd(decay=0.0, clip=np.inf):
    def step(w, g, memory, t):  # noqa: ARG001
        g = g * min(1.0, clip / np.linalg.norm(g))
        return w - RATE * (g + decay * w), memory

    return step


def momentum(beta, decay):
    def step(w, g, memory, t):  # noqa: ARG001
        m = beta * memory[0] + g + decay * w
        return w - RATE * m, (m, 0.0)

    return step


def adam(b1, b2, eps, decay, *, decoupled):
    def step(w, g, memory, t):
        g = g if decoupled else g + decay * w
        m, v = b1 * memory[0] + (1 - b1) * g, b2 * memory[1] + (1 - b2) * g**2
        direction = (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
        return w - RATE * (direction + (decay * w if decoupled else 0)), (m, v)

    return step


@pytest.mark.parametrize(
    ("optimizer", "step"),
    [
        (local_optimizers.sgd(), sgd()),
        (local_optimizers.sgd(weight_decay=0.3, clip_norm=0.7), sgd(0.3, 0.7)),
        (local_optimizers.momentum(0.8, weight_decay=0.1), momentum(0.8, 0.1)),
        (local_optimizers.adam(0.8, 0.9, 1e-3, 0.2), adam(0.8, 0.9, 1e-3, 0.2, decoupled=False)),
        (local_optimizers.adamw(0.8, 0.9, 1e-3, 0.2), adam(0.8, 0.9, 1e-3, 0.2, decoupled=True)),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_steps_are_those_of_the_papers(optimizer, step):
    w = descend(jnp.asarray(START), gradient, STEPS, jnp.float32(RATE), optimizer)
    np.testing.assert_allclose(w, by_numpy(step), rtol=1e-5)


def test_plain_steps_are_known_as_such():
    assert local_optimizers.sgd().is_plain
    assert not local_optimizers.sgd(weight_decay=[0.0, 0.1]).is_plain
    assert not local_optimizers.sgd(clip_norm=1.0).is_plain
    assert not local_optimizers.momentum(0.0).is_plain


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: local_optimizers.momentum(1.0), "beta1"),
        (lambda: local_optimizers.adam(beta2=-0.1), "beta2"),
        (lambda: local_optimizers.adam(eps=0), "eps"),
        (lambda: local_optimizers.adamw(weight_decay=-1), "weight_decay"),
        (lambda: local_optimizers.sgd(clip_norm=0), "clip_norm"),
    ],
)
def test_bad_numbers_are_refused(make, what):
    with pytest.raises(maxfl.InputError, match=what):
        make()
