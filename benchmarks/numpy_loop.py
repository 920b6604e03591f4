"""The same round in plain NumPy, written for speed: the yardstick of benchmarks/rounds.py."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Params = list[tuple[Floats, Floats]]


class NumpyRound:
    """FedAvg rounds of an MLP with dropout after its first layer, one client after another."""

    def __init__(self, federation: Any, params: Params, dropout: float, seed: int = 0) -> None:
        self.federation, self.params, self.dropout = federation, params, dropout
        self.rng = np.random.default_rng(seed)

    def run(self, cohort: int, steps: int, batch: int, rate: float) -> None:
        """One round: sample, train, average."""
        chosen = self.rng.choice(self.federation.seen, cohort, replace=False)
        trained = [self._train(k, steps, batch, np.float32(rate)) for k in chosen]
        self.params = [
            (np.mean([t[i][0] for t in trained], 0), np.mean([t[i][1] for t in trained], 0))
            for i in range(len(self.params))
        ]

    def evaluate(self) -> list[Floats]:
        """Loss and accuracy of every client on its training and its test data."""
        results = []
        for split in (self.federation.train, self.federation.test):
            for k in range(self.federation.clients):
                rows = slice(split.offsets[k], split.offsets[k + 1])
                x, y = self._decode(split.x[rows]), split.y[rows]
                logits = self._forward(self.params, x)[-1]
                picked = logits[np.arange(len(y)), y]
                top = logits.max(1)
                loss = np.log(np.exp(logits - top[:, None]).sum(1)) + top - picked
                results.append(np.array([loss.mean(), (logits.argmax(1) == y).mean()]))
        return results

    def _train(self, k: int, steps: int, batch: int, rate: np.float32) -> Params:
        train = self.federation.train
        start, end = train.offsets[k], train.offsets[k + 1]
        params = [(w.copy(), b.copy()) for w, b in self.params]
        for _ in range(steps):
            rows = self.rng.integers(start, end, batch)
            x, y = self._decode(train.x[rows]), train.y[rows]
            shape = (batch, params[0][0].shape[1])
            kept = self.rng.random(shape, np.float32) >= self.dropout
            mask = kept.astype(np.float32) / np.float32(1 - self.dropout)
            layers = self._forward(params, x, mask)
            logits = layers[-1]
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[np.arange(batch), y] -= 1
            back = p / np.float32(batch)
            for i in reversed(range(len(params))):
                weight, bias = params[i]
                below = back @ weight.T if i > 0 else back
                weight -= rate * (layers[i].T @ back)
                bias -= rate * back.sum(0)
                if i > 0:
                    below[layers[i] <= 0] = 0
                    back = below * mask if i == 1 else below
        return params

    def _forward(self, params: Params, x: Floats, mask: Floats | None = None) -> list[Floats]:
        layers = [x]
        for i, (weight, bias) in enumerate(params):
            h = layers[-1] @ weight + bias
            if i < len(params) - 1:
                np.maximum(h, 0, out=h)
                if i == 0 and mask is not None:
                    h *= mask
            layers.append(h)
        return layers

    def _decode(self, x: NDArray[np.uint8]) -> Floats:
        shift, scale = self.federation.decoding
        return (x.reshape(len(x), -1).astype(np.float32) - shift) * scale
