"""Clients that train alone, one chunk of them after another."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from maxfl.core.criterion import Criterion
from maxfl.core.requirements.requirement import Solo
from maxfl.distributed.processes import explain_lost_peer, fetch
from maxfl.engine.layout import CLIENT
from maxfl.engine.programs import train_solo
from maxfl.engine.spec import SoloSpec
from maxfl.engine.state import Data, SoloHParams

SOLO_CHUNK = 128
"""Clients per device that train alone in one call of the program, or more if in parallel."""


class SoloCache:
    """Solo results shared between runs, so that none is trained twice, nor by two at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._known: dict[Any, Solo] = {}

    def __contains__(self, key: Any) -> bool:
        """Tell whether something is known by this key."""
        return key in self._known

    def get(self, key: Any, train: Callable[[], Solo]) -> Solo:
        """Return what is known by this key, else what ``train`` gives; hold the lock meanwhile."""
        if key not in self._known:
            self._known[key] = train()
        return self._known[key]


def best_solo(criterion: Criterion, ways: Sequence[Solo]) -> Solo:
    """Return, of models that each client trained in several ways, its best; [n] each.

    The best by the data that it judges by, and of equals the first; what diverged is the worst.
    """
    if len(ways) == 1:
        return ways[0]
    of_loss = criterion.metric is None
    costs = np.stack([
        criterion.cost(np.asarray(way.judging_loss if of_loss else way.judging_metric))
        for way in ways
    ])  # fmt: skip
    best = np.where(np.isnan(costs), np.inf, costs).argmin(0)
    each = np.arange(len(best))
    return jax.tree.map(lambda *parts: np.stack(parts)[best, each], *ways)


def train_clients(
    spec: SoloSpec,
    data: Data,
    hparams: SoloHParams,
    slots: Any,
    client_ids: Any,
    progress: Callable[[str, int, int], None] | None = None,
) -> Solo:
    """Let the clients in some slots of the data train alone, with one configuration; [n] each.

    For one configuration at a time, so that the bits do not depend on what else is in the sweep;
    chunks are of few widths, so that few programs do.

    Args:
        spec: What is compiled in.
        data: Of the clients.
        hparams: Of one configuration, [1] each.
        slots: Of those that train, int[n].
        client_ids: Of all clients in the data, int32; None where they are all there are.
        progress: Called with ("solo training", done, total).
    """
    chunks, total = [], len(slots)
    width = _width(spec, len(data.train.offsets) - 1, total)
    for begin in range(0, total, width):
        chunk = np.minimum(np.arange(begin, begin + width), total - 1)
        with explain_lost_peer():
            results = train_solo(spec, data, hparams, slots[chunk].astype(np.int32), client_ids)
        chunks.append(fetch(results, spec.layout.mesh))
        if progress:
            progress("solo training", min(begin + width, total), total)
    return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[0, :total], *chunks)


def _width(spec: SoloSpec, clients: int, total: int) -> int:
    """Return the clients of a chunk: as many on every device, a power of two if all fit."""
    layout = spec.layout
    devices = layout.mesh.shape[CLIENT]
    most = min(max(SOLO_CHUNK, layout.parallel_clients), -(-clients // devices)) * devices
    return min(most, devices << (-(-total // devices) - 1).bit_length())
