"""Clients that train alone, one chunk of them after another."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from maxfl.core.requirement import Solo
from maxfl.distributed.processes import attached, fetch
from maxfl.engine.layout import CLIENT
from maxfl.engine.programs import train_alone
from maxfl.engine.spec import Data, Numbers, SoloSpec

SOLO_CHUNK = 128
"""Clients per device that train alone in one call of the program, or more if at once."""


def solo_results(
    spec: SoloSpec,
    data: Data,
    numbers: Numbers,
    c: int,
    places: Any,
    names: Any,
    progress: Callable[[str, int, int], None] | None = None,
) -> Solo:
    """Solo results of the clients at some places of the data, [n], for configuration ``c``.

    For one configuration at a time, so that the bits do not depend on what else is in the sweep;
    chunks are of few widths, so that few programs do. ``names`` are the numbers of all clients
    whose data are here, int32; None where they are all there are.
    """
    own = [a[c : c + 1] for a in (numbers.seed, numbers.local_lr, numbers.batch_size)]
    chunks, total = [], len(places)
    width = _width(spec, len(data.train.offsets) - 1, total)
    for begin in range(0, total, width):
        chunk = np.minimum(np.arange(begin, begin + width), total - 1)
        with attached():
            results = train_alone(spec, data, *own, places[chunk].astype(np.int32), names)
        chunks.append(fetch(results, spec.layout.mesh))
        if progress:
            progress("solo training", min(begin + width, total), total)
    return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[0, :total], *chunks)


def _width(spec: SoloSpec, clients: int, total: int) -> int:
    """Clients of a chunk: as many on every device, a power of two if all fit into one."""
    layout = spec.layout
    devices = layout.mesh.shape[CLIENT]
    most = min(max(SOLO_CHUNK, layout.clients_at_once), -(-clients // devices)) * devices
    return min(most, devices << (-(-total // devices) - 1).bit_length())
