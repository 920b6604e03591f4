"""Evaluation clients of a federation on disk: drawn once, in memory, they evaluate the model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxfl.core.federation import Federation
from maxfl.core.federation_files import read_clients
from maxfl.core.judging import Judging, with_judging
from maxfl.engine.state import CohortRecord


def draw_eval_clients(federation: Federation, most: int, seed: int) -> NDArray[np.int64]:
    """Draw at most so many seen clients, and unseen ones: their ids in order, int[P]."""
    rng = np.random.default_rng(seed)
    groups = np.split(np.arange(federation.clients), [federation.seen])
    chosen = [rng.choice(group, min(most, len(group)), replace=False) for group in groups]
    return np.sort(np.concatenate(chosen))


def read_eval_clients(
    whole: Federation, eval_clients: NDArray[np.int64], judged_by: Judging
) -> Federation:
    """Read the evaluation clients as a federation in memory, with what they judge by."""
    metadata = whole.metadata
    flipped = None if metadata.flipped is None else metadata.flipped[eval_clients]
    note = f"evaluated by {len(eval_clients)} of {whole.clients} clients"
    notes = (note,) if len(eval_clients) < whole.clients else ()
    judging = None if whole.judging is None else read_clients(whole.judging, eval_clients)
    chosen_clients = whole._replace(
        train=read_clients(whole.train, eval_clients),
        test=read_clients(whole.test, eval_clients),
        seen=int((eval_clients < whole.seen).sum()),
        metadata=metadata._replace(
            names=whole.names[eval_clients], flipped=flipped, notes=(*metadata.notes, *notes)
        ),
        known_digest=None,
        judging=judging,
    )
    return with_judging(chosen_clients, judged_by, eval_clients)


def by_slot(eval_clients: NDArray[np.int64], cohorts: CohortRecord) -> CohortRecord:
    """Return cohorts by slots among the evaluation clients; others count as not sampled."""
    slot: Any = np.minimum(np.searchsorted(eval_clients, cohorts.client_id), len(eval_clients) - 1)
    there = eval_clients[slot] == cohorts.client_id
    return cohorts._replace(
        client_id=slot * there,
        sampled=cohorts.sampled & there,
        participated=cohorts.participated & there,
        weight=cohorts.weight * there,
    )
