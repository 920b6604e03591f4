"""Both models in plain NumPy, forward and backward by hand, written for speed."""

import os
from typing import Any, NamedTuple

import numpy as np
import pool
from numpy.typing import NDArray
from task import Floats, Task

CHUNK = 2048
"""Samples at once when a model is evaluated."""
CNN_CHUNK = 100


class Loop:
    """One process of the loop, for `pool.Pool`."""

    def __init__(self, task: Task) -> None:
        self.task, self.rng = task, np.random.default_rng(os.getpid())

    def train(self, params: Floats, client: int) -> Floats:
        """Return parameters after τ steps."""
        trained = params.copy()
        train(self.task, self.rng, pool.unflat(trained, self.task.start), client)
        return trained

    def evaluate(self, params: Floats, split: int, rows: slice) -> tuple[Floats, Floats]:
        """Compute loss and correctness of samples."""
        samples = (self.task.train, self.task.test)[split]
        layers = pool.unflat(params, self.task.start)
        return evaluate(self.task, layers, samples.x[rows], samples.y[rows])


def train(task: Task, rng: np.random.Generator, params: list[Floats], client: int) -> None:
    """Take τ steps of SGD on a client's samples, in place."""
    start, end = task.train.offsets[client : client + 2]
    step = {"mlp": mlp_gradient, "cnn": cnn_gradient}[task.model]
    rate = np.float32(task.rate)
    for rows in rng.integers(start, end, (task.steps, task.batch)):
        x, y = task.scale_inputs(task.train.x[rows]), task.train.y[rows]
        for p, g in zip(params, step(params, x, y, task.dropout, rng), strict=True):
            g *= rate  # in place: new memory would cost as much as the matrix multiplication
            p -= g


def evaluate(
    task: Task, params: list[Floats], x: NDArray[Any], y: NDArray[np.int32]
) -> tuple[Floats, Floats]:
    """Compute loss and correctness of each sample, float32[n] each."""
    forward, chunk = {"mlp": (mlp, CHUNK), "cnn": (cnn, CNN_CHUNK)}[task.model]
    losses, hits = [], []
    for i in range(0, len(y), chunk):
        logits, labels = forward(params, task.scale_inputs(x[i : i + chunk])), y[i : i + chunk]
        top = logits.max(1)
        losses.append(np.log(np.exp(logits - top[:, None]).sum(1)) + top
                      - logits[np.arange(len(labels)), labels])  # fmt: skip
        hits.append((logits.argmax(1) == labels).astype(np.float32))
    return np.concatenate(losses), np.concatenate(hits)


def mlp(params: list[Floats], x: Floats) -> Floats:
    """Compute logits of inputs [n, 28, 28]."""
    h = x.reshape(len(x), -1)
    for i in range(0, len(params) - 2, 2):
        h = h @ params[i]
        h += params[i + 1]
        np.maximum(h, 0, out=h)
    return h @ params[-2] + params[-1]


def mlp_gradient(
    params: list[Floats], x: Floats, y: NDArray[np.int32], dropout: float, rng: np.random.Generator
) -> list[Floats]:
    """Compute the gradient of the mean loss, with dropout after the first hidden layer."""
    layers = [x.reshape(len(x), -1)]
    mask = _mask(rng, (len(x), params[0].shape[1]), dropout)
    for i in range(0, len(params) - 2, 2):
        h = layers[-1] @ params[i]
        h += params[i + 1]
        np.maximum(h, 0, out=h)
        if i == 0:
            h *= mask
        layers.append(h)
    back = _error(layers[-1] @ params[-2] + params[-1], y)
    gradients: list[Floats] = []
    for i in reversed(range(len(layers))):
        gradients = [layers[i].T @ back, back.sum(0), *gradients]
        if i > 0:
            back = back @ params[2 * i].T
            back *= layers[i] > 0
            if i == 1:
                back *= mask
    return gradients


def cnn(params: list[Floats], x: Floats) -> Floats:
    """Compute logits of images [n, 28, 28]."""
    w1, b1, w2, b2, w3, b3, w4, b4 = params
    h = _convolve(x[..., None], w1, b1).pooled
    h = _convolve(h, w2, b2).pooled
    h = np.maximum(h.reshape(len(x), -1) @ w3 + b3, 0)
    return h @ w4 + b4


def cnn_gradient(
    params: list[Floats], x: Floats, y: NDArray[np.int32], dropout: float, rng: np.random.Generator
) -> list[Floats]:
    """Compute the gradient of the mean loss, with dropout after the dense layer of 128."""
    w1, b1, w2, b2, w3, b3, w4, b4 = params
    first = _convolve(x[..., None], w1, b1)
    second = _convolve(first.pooled, w2, b2)
    features = second.pooled.reshape(len(x), -1)
    mask = _mask(rng, (len(x), w3.shape[1]), dropout)
    dense = np.maximum(features @ w3 + b3, 0) * mask
    back4 = _error(dense @ w4 + b4, y)
    back3 = (back4 @ w4.T) * mask * (dense > 0)
    patches2 = _unpool(second, (back3 @ w3.T).reshape(second.pooled.shape))
    back1 = _unpatch(patches2 @ w2.reshape(-1, w2.shape[3]).T, first.pooled.shape)
    patches1 = _unpool(first, back1)
    return [
        (first.patches.T @ patches1).reshape(w1.shape), patches1.sum(0),
        (second.patches.T @ patches2).reshape(w2.shape), patches2.sum(0),
        features.T @ back3, back3.sum(0), dense.T @ back4, back4.sum(0),
    ]  # fmt: skip


class Convolved(NamedTuple):
    """A 3 × 3 convolution, ReLU and 2 × 2 max-pooling; rows and columns left over are dropped.

    Attributes:
        patches: Windows of the input as rows, [n · height · width, 9 · channels].
        full: Before the pooling, [n, height, width, outputs].
        pooled: After it, [n, height // 2, width // 2, outputs].
    """

    patches: Floats
    full: Floats
    pooled: Floats


def _convolve(x: Floats, weight: Floats, bias: Floats) -> Convolved:
    n, height, width, channels = x.shape
    height, width = height - 2, width - 2
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    patches = windows.transpose(0, 1, 2, 4, 5, 3).reshape(n * height * width, 9 * channels)
    h = patches @ weight.reshape(9 * channels, -1)
    h += bias
    np.maximum(h, 0, out=h)
    full = h.reshape(n, height, width, -1)
    quarters = _quarters(full)
    pooled = np.maximum(np.maximum(quarters[0], quarters[1]), np.maximum(quarters[2], quarters[3]))
    return Convolved(patches, full, pooled)


def _quarters(full: Floats) -> list[Floats]:
    """Return the four places of each 2 × 2 window, views [n, height // 2, width // 2, outputs]."""
    height, width = (size // 2 * 2 for size in full.shape[1:3])
    return [full[:, i:height:2, j:width:2] for i in (0, 1) for j in (0, 1)]


def _unpool(layer: Convolved, back: Floats) -> Floats:
    """Return the gradient before the pooling, given that after it: [n · height · width, outputs].

    The first of equal values takes it; where ReLU gave zero, nobody does.
    """
    gradient = np.zeros_like(layer.full)
    back = back * (layer.pooled > 0)
    for place, value in zip(_quarters(gradient), _quarters(layer.full), strict=True):
        taken = back * (value == layer.pooled)
        place[...] = taken
        back -= taken
    return gradient.reshape(-1, gradient.shape[3])


def _unpatch(patches: Floats, shape: tuple[int, ...]) -> Floats:
    """Sum windows back to where they came from, [n, height, width, channels]."""
    n, height, width, channels = shape
    out = np.zeros(shape, np.float32)
    parts = patches.reshape(n, height - 2, width - 2, 3, 3, channels)
    for i in range(3):
        for j in range(3):
            out[:, i : i + height - 2, j : j + width - 2] += parts[:, :, :, i, j]
    return out


def _mask(rng: np.random.Generator, shape: tuple[int, int], dropout: float) -> Floats:
    """Draw 0 for a dropped unit, 1/(1 − dropout) for others."""
    stays = rng.random(shape, np.float32) >= dropout
    return stays * np.float32(1 / (1 - dropout))


def _error(logits: Floats, y: NDArray[np.int32]) -> Floats:
    """Compute the gradient of the mean cross-entropy by the logits."""
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    p /= np.float32(len(y))
    return p
