"""Three clients that pick among three models, whose round can be worked by hand."""

import jax
import jax.numpy as jnp
import numpy as np

import maxfl
from maxfl.core.prng import Purpose, key
from support.small import PAPER

A = float(np.log(3) / 2)
"""With logits (A, −A) the first class has a probability of ¾, with (2A, −2A) of 9/10."""
CLIENTS = [([[1.0]], [0]), ([[2.0]] * 2, [1] * 2), ([[1.0]], [1])]

# Model 0 starts at (A, −A), model 1 at (−A, A), model 2 at 0, where every loss is ln 2. Client 0
# has y = 0 and picks model 0, with a loss of ln 4/3. Clients 1 and 2 have y = 1 and pick model 1,
# with losses of ln 10/9 and ln 4/3. Their gradients are x (p − y), of which only first components
# are written: g₀ = −¼, g₁ = 2 · 0.1 and g₂ = ¼. So a step of 0.1 gives Δ₀ = −0.025, Δ₁ = 0.02 and
# Δ₂ = 0.025.


def _start(drawn):
    """Return where a model starts, by the key that it is drawn with."""
    is_model = [
        jnp.all(jax.random.key_data(drawn) == jax.random.key_data(key(0, Purpose.INIT, 0, j)))
        for j in range(2)
    ]
    return (1.0 * is_model[0] - 1.0 * is_model[1]) * jnp.array([[A, -A]])


LINEAR = maxfl.Model(_start, lambda w, x, _=None: x @ w)


def after_a_round(algorithm):
    """Return the history of a round of all three clients."""
    federation = maxfl.Federation.from_clients(CLIENTS, CLIENTS)
    training = maxfl.Training(rounds=1, cohort=3, local_steps=1, batch_size=1, local_lr=0.1)
    return maxfl.simulate(
        federation, LINEAR, algorithm, training, portfolio=maxfl.portfolio(models=3),
        requirement=maxfl.fixed(1.0, steps=1, **PAPER), devices=jax.devices()[:1],
    )  # fmt: skip


def first_components(history):
    """Return the first component of each model."""
    return history.params[0, :, 0, 0]


def trained_by_client(history):
    """Return the model that each client trained."""
    cohort = zip(history.cohorts.client_id[0, 0], history.cohorts.model[0, 0], strict=True)
    return [int(model) for _, model in sorted(cohort)]
