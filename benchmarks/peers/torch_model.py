"""Both models in PyTorch, as functions of their parameters; for the plain loop and for pfl."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from task import Floats, Task

Params = list[torch.Tensor]


def apply(model: str, dropout: float, params: Any, x: torch.Tensor, training: bool) -> torch.Tensor:
    """Compute logits of inputs: [n, 784] for the MLP, [n, 1, 28, 28] for the CNN."""
    return {"mlp": mlp, "cnn": cnn}[model](dropout, params, x, training)


def mlp(dropout: float, params: Any, x: torch.Tensor, training: bool) -> torch.Tensor:
    """Apply dense layers with ReLU, and dropout after the first."""
    for i in range(0, len(params) - 2, 2):
        x = F.relu(F.linear(x, params[i], params[i + 1]))
        if i == 0:
            x = F.dropout(x, dropout, training)
    return F.linear(x, params[-2], params[-1])


def cnn(dropout: float, params: Any, x: torch.Tensor, training: bool) -> torch.Tensor:
    """Apply two convolutions with pooling, a dense layer with dropout, and the output."""
    w1, b1, w2, b2, w3, b3, w4, b4 = params
    x = F.max_pool2d(F.relu(F.conv2d(x, w1, b1)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, w2, b2)), 2)
    x = F.dropout(F.relu(F.linear(x.flatten(1), w3, b3)), dropout, training)
    return F.linear(x, w4, b4)


def inputs(task: Task, x: Floats) -> torch.Tensor:
    """Return scaled images as the model takes them."""
    images = torch.from_numpy(np.ascontiguousarray(x))
    return images.flatten(1) if task.model == "mlp" else images[:, None]


def to_torch(params: list[Floats]) -> Params:
    """Return PyTorch's layout: outputs first, and channels first in and after convolutions."""
    found, channels = [], 0
    for p in params:
        if p.ndim == 4:
            channels = p.shape[3]
            p = p.transpose(3, 2, 0, 1)
        elif p.ndim == 2:
            p = _regroup(p, channels, first=True).T
            channels = 0
        found.append(torch.tensor(np.ascontiguousarray(p)))
    return found


def to_numpy(params: Any) -> list[Floats]:
    """Return the layout of the task."""
    found, channels = [], 0
    for tensor in params:
        p = tensor.detach().cpu().numpy()
        if p.ndim == 4:
            channels = p.shape[0]
            p = p.transpose(2, 3, 1, 0)
        elif p.ndim == 2:
            p = _regroup(p.T, channels, first=False)
            channels = 0
        found.append(np.ascontiguousarray(p))
    return found


def _regroup(weight: Floats, channels: int, first: bool) -> Floats:
    """Order rows [place, channel] as [channel, place], or back; without channels, leave them."""
    if not channels:
        return weight
    shape = (-1, channels) if first else (channels, -1)
    return weight.reshape(*shape, weight.shape[1]).swapaxes(0, 1).reshape(weight.shape)
