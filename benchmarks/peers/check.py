"""Whether a peer did the work: its trained parameters, measured by one ruler for all."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax_model
import numpy as np
from task import Floats, Samples, Task

SAMPLES = 20
"""Samples of each client that the ruler measures."""
FAR = 0.2
"""A loss that has not fallen by more than this share of the start's loss is no training."""
ACCURACY = 1
"""Place of the accuracy in an evaluation, behind the loss."""
CLOSE = 2e-3
"""Largest difference to a peer's evaluation."""


class WrongError(Exception):
    """A peer did something else than its task."""


def check(task: Task, out: Path) -> float:
    """Return the mean training loss over all clients (the first samples of each) of a peer.

    Where it evaluated all clients, its evaluation must be right.
    """
    with np.load(out) as file:
        names = [f"arr_{i}" for i in range(len(task.start))]
        if any(name not in file for name in names):
            raise WrongError("it trained no parameters")
        params = [file[name] for name in names]
        evaluation = file.get("evaluation")
    if [p.shape for p in params] != [p.shape for p in task.start]:
        raise WrongError("its parameters have other shapes than the task's")
    loss, start = (mean_loss(task, p) for p in (params, task.start))
    if not loss < (1 - FAR) * start:
        raise WrongError(f"it trained to a loss of {loss:.3f}, from {start:.3f}")
    if task.evaluated:
        compare(task, params, evaluation)
    return loss


def compare(task: Task, params: list[Floats], evaluation: Floats | None) -> None:
    """Compare an evaluation, [2, 2, K]: training and test data, loss and accuracy.

    A peer may leave out the accuracy on training data: NaN for all clients.
    """
    if evaluation is None:
        raise WrongError("it evaluated no clients")
    for split, samples in enumerate((task.train, task.test)):
        scores = _scores(task, params, samples.x, samples.y)
        ours = np.add.reduceat(scores, samples.offsets[:-1], axis=1) / samples.sizes
        off = np.abs(evaluation[split] - ours)
        if split == 0 and np.isnan(off[ACCURACY]).all():
            off = np.delete(off, ACCURACY, axis=0)
        if not off.max() <= CLOSE:
            raise WrongError(f"its evaluation is off by up to {off.max():.3f}")


def mean_loss(task: Task, params: list[Floats]) -> float:
    """Return the mean over clients of the mean loss of their first training samples."""
    rows, weights = _rows(task.train)
    return float(_scores(task, params, task.train.x[rows], task.train.y[rows])[0] @ weights)


def _rows(samples: Samples) -> tuple[Any, Any]:
    """Return each client's first rows, and weights whose sum is the mean of the clients' means."""
    counts = np.minimum(samples.sizes, SAMPLES)
    rows = [start + np.arange(n) for start, n in zip(samples.offsets, counts, strict=False)]
    return np.concatenate(rows), np.repeat(1 / counts / len(counts), counts)


def _scores(task: Task, params: list[Floats], x: Any, y: Any, chunk: int = 1000) -> Floats:
    """Compute loss and correctness of each sample, float32[2, n]; the last chunk is padded."""
    found = []
    for i in range(0, len(y), chunk):
        part, labels = x[i : i + chunk], y[i : i + chunk]
        pad = chunk - len(labels)
        part, labels = np.pad(part, [(0, pad), (0, 0), (0, 0)]), np.pad(labels, (0, pad))
        scores = _score(task.model, params, task.scale_inputs(part), labels)
        found.append(np.asarray(scores)[:, : chunk - pad])
    return np.concatenate(found, axis=1)


@partial(jax.jit, static_argnums=0)
def _score(model: str, params: list[Floats], x: jax.Array, y: jax.Array) -> jax.Array:
    logits = jax_model.apply(model, 0.0, params, x)
    losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1)[:, 0]
    return jnp.stack([losses, (logits.argmax(1) == y).astype(jnp.float32)])
