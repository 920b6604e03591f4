"""Clients over rounds, small enough to travel inside a page.

A trace becomes bytes, deflated and in base64: flags of every client and round, then both gaps as
16-bit numbers, differences from round to round, low bytes before high ones, and of a portfolio the
model that each client picked; page/clients.js unpacks them.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.report.traces import Trace, TraceKey

LEVELS = 4000
"""Steps from no gap to the largest: finer than a screen, coarse enough to pack well."""
LARGEST = 30.0
"""Larger gaps are drawn as this; a diverged model must not flatten all others."""
BUDGET = 7_000_000
"""Characters of all packed traces of a page."""


class Packed(NamedTuple):
    """A trace for the page.

    Attributes:
        rounds: Those that it has.
        scale: Gap of one step.
        text: The rest.
    """

    rounds: list[int]
    scale: float
    text: str


class PageTraces(NamedTuple):
    """What of all traces travels.

    Attributes:
        packed: By case, method and seed.
        note: What was left out, for the reader; "" if nothing.
    """

    packed: dict[TraceKey, Packed]
    note: str


def pack(trace: Trace, step: int = 1) -> Packed:
    """Pack every ``step``-th evaluated round, and the last."""
    picked = sorted({*range(0, len(trace.rounds), step), len(trace.rounds) - 1})
    gaps = [np.clip(np.nan_to_num(g[picked], nan=LARGEST), -LARGEST, LARGEST)
            for g in (trace.gap, trace.test_gap)]  # fmt: skip
    scale = max(float(np.abs(np.stack(gaps)).max()), 1e-6) / LEVELS
    flags = [trace.satisfied, trace.willing, trace.sampled, trace.participated]
    bits = np.stack([f[picked] for f in flags]).astype(np.uint8)
    whole = (bits << np.arange(4, dtype=np.uint8)[:, None, None]).sum(0, dtype=np.uint8)
    # Client by client, since a client's rounds resemble each other.
    parts = [whole.T.tobytes(), *(_differences(g.T / scale) for g in gaps)]
    if trace.picked is not None:
        parts.append(trace.picked[picked].T.astype(np.uint8).tobytes())
    text = base64.b64encode(zlib.compress(b"".join(parts))).decode()
    return Packed(trace.rounds[picked].tolist(), scale, text)


def _differences(steps: NDArray[Any]) -> bytes:
    """Write int[K, E] as differences along the rounds: all low bytes, then all high bytes."""
    whole = np.rint(steps).astype(np.int16)
    change = np.diff(whole, axis=1, prepend=np.int16(0)).astype(np.uint16)
    return bytes(
        (change & 255).astype(np.uint8).tobytes() + (change >> 8).astype(np.uint8).tobytes()
    )


def choose(traces: Mapping[TraceKey, Trace], budget: int = BUDGET) -> PageTraces:
    """Pack all traces; if that is too much, fewer seeds, then fewer rounds."""
    first: dict[tuple[str, str], int] = {}
    for case, method, seed in traces:
        first.setdefault((case, method), seed)
    one_each = [key for key in traces if first[key[:2]] == key[2]]
    choices: list[tuple[Sequence[TraceKey], int]] = [(list(traces), 1)]
    choices += [(one_each, step) for step in (1, 2, 4, 8, 16, 32)]
    for keys, step in choices:
        packed = {key: pack(traces[key], step) for key in keys}
        if sum(len(one.text) for one in packed.values()) <= budget:
            return PageTraces(packed, _note(len(traces), len(keys), step))
    return PageTraces({}, "Too many runs to show single clients: report on fewer folders.")


def _note(total: int, packed: int, step: int) -> str:
    words = []
    if packed < total:
        words.append("one seed of each method")
    if step > 1:
        words.append(f"one evaluated round in {step}")
    if not words:
        return ""
    return f"To keep this page small, single clients are shown for {' and '.join(words)}."
