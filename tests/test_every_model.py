"""Every method trains every kind of model: the product, small."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from support import batch_norm

pytestmark = pytest.mark.slow
CLIENTS, FEATURES, TOKENS, LENGTH = 6, 4, 5, 6
TRAINING = maxfl.Training(
    rounds=3, cohort=3, local_steps=4, batch_size=4, local_lr=0.1, evaluate_every=3
)


class Kind(NamedTuple):
    """A model, and a function that makes a client's samples for it."""

    model: maxfl.Model
    samples: object


def numbers(rng, n):
    """Noisy sums of features."""
    x = rng.normal(3, 2, (n, FEATURES)).astype(np.float32)
    return x, np.stack([x.sum(1) / 4, x[:, 0]], 1) + rng.normal(0, 0.1, (n, 2))


def labels(rng, n):
    """Which of two features are large."""
    x = rng.normal(3, 2, (n, FEATURES)).astype(np.float32)
    return x, (x[:, :2] > 3).astype(int)


def sequences(rng, n):
    """Numbers that count up by one, and what comes next; 0 is padding."""
    start = rng.integers(0, TOKENS - 1, (n, 1))
    both = 1 + (start + np.arange(LENGTH + 1)) % (TOKENS - 1)
    y = both[:, 1:].copy()
    y[0, -2:] = 0
    return both[:, :-1], y


def frozen_embedding():
    """A table of vectors that nobody trains, and a matrix that all do."""

    def apply(w, x, key=None, *, frozen):  # noqa: ARG001
        return frozen[x] @ w

    table = np.random.default_rng(0).normal(size=(TOKENS, 8)).astype(np.float32)
    return maxfl.Model(
        lambda _: jnp.zeros((8, TOKENS)),
        apply,
        loss=maxfl.losses.next_token(),
        frozen=table,
        tokens=True,
    )


def adapted():
    """Low-rank adapters of a classifier."""
    base = maxfl.mlp(FEATURES, (8, 8), 2, dropout=0.0)
    return maxfl.lora(base, 2, "weight", params=base.init(jax.random.key(0)))


def classes(rng, n):
    """Whether the first feature is large."""
    x = rng.normal(3, 2, (n, FEATURES)).astype(np.float32)
    return x, (x[:, 0] > 3).astype(int)


KINDS = {
    "classes, with adapters": Kind(adapted(), classes),
    "numbers, with state": Kind(
        maxfl.Model(batch_norm.init, batch_norm.apply, loss=maxfl.losses.squared_error), numbers
    ),
    "labels, with state that clients keep": Kind(
        maxfl.Model(
            batch_norm.init, batch_norm.apply, loss=maxfl.losses.multi_label, keep_local=True
        ),
        labels,
    ),
    "tokens, with frozen parameters": Kind(frozen_embedding(), sequences),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", maxfl.ALGORITHMS)
def test_every_method_trains_every_model(kind, algorithm):
    model, samples = KINDS[kind]
    rng = np.random.default_rng(1)
    clients = [[samples(rng, n) for n in range(8, 8 + CLIENTS)] for _ in range(2)]
    federation = maxfl.Federation.from_clients(*clients, unseen=1)
    history = maxfl.simulate(
        federation, model, maxfl.ALGORITHMS[algorithm](), TRAINING,
        requirement=maxfl.solo(steps=40), devices=jax.devices()[:1],
    )  # fmt: skip
    losses = history.mean(history.evaluation.judging_loss)[0]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]
    assert set(history.metrics()) >= {f"test_{info.name}" for info in model.metric_infos}
    assert all(np.isfinite(v).all() for v in history.metrics().values())
