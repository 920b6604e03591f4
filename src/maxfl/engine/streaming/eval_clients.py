"""The clients that judge the model of a federation on disk, drawn once and held in memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxfl.core.federation import Federation
from maxfl.core.federation_files import read_clients
from maxfl.engine.spec import Asked


def draw_panel(federation: Federation, most: int, seed: int) -> NDArray[np.int64]:
    """At most so many seen clients, and unseen ones: their numbers in order, int[P]."""
    rng = np.random.default_rng(seed)
    groups = np.split(np.arange(federation.clients), [federation.seen])
    chosen = [rng.choice(group, min(most, len(group)), replace=False) for group in groups]
    return np.sort(np.concatenate(chosen))


def read_panel(whole: Federation, panel: NDArray[np.int64]) -> Federation:
    """The panel as a federation in memory."""
    about = whole.about
    flipped = None if about.flipped is None else about.flipped[panel]
    note = f"judged by a panel of {len(panel)} of {whole.clients} clients"
    notes = (note,) if len(panel) < whole.clients else ()
    return whole._replace(
        train=read_clients(whole.train, panel),
        test=read_clients(whole.test, panel),
        seen=int((panel < whole.seen).sum()),
        about=about._replace(
            names=whole.names[panel], flipped=flipped, notes=(*about.notes, *notes)
        ),
        known_digest=None,
    )


def by_place(panel: NDArray[np.int64], asked: Asked) -> Asked:
    """Who was asked, by places in the panel; others were not asked, as far as it knows."""
    place: Any = np.minimum(np.searchsorted(panel, asked.client), len(panel) - 1)
    there = panel[place] == asked.client
    return Asked(
        place * there, asked.sampled & there, asked.took_part & there, asked.weight * there
    )
