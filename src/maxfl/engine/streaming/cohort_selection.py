"""Who trains in a round of a federation on disk, and what their replies tell of all.

By opt-out, candidates are shown the model in random order, as many at a time as a cohort has, until
enough are willing or ``max_candidates`` were shown it. The order is that of the engine's draw, so
the cohort is the one that would be drawn among all willing clients, if only enough are shown it.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from maxfl.core.participation import ParticipationHParams, responds
from maxfl.core.prng import Purpose, key
from maxfl.engine.session import Session
from maxfl.engine.state import CohortRecord, RoundCounts, State, Sweep
from maxfl.engine.streaming.cohort_reader import CohortData, CohortReader
from maxfl.engine.streaming.programs import show_candidates


class SelectedCohort(NamedTuple):
    """A cohort that can be trained.

    Attributes:
        cohort: m clients, of which some may be placeholders.
        sampled: Which of them are real, bool[m].
        measured: Where clients were shown the model before, float32[m] each; else ().
        responded: Honest clients that said whether they were willing; None where it shows later.
        willing: Those of them that were.
    """

    cohort: CohortData
    sampled: NDArray[np.bool_]
    measured: Any = ()
    responded: int | None = None
    willing: int = 0


class CohortSelection:
    """Selects the cohort of each round.

    Args:
        session: The experiment on its devices.
        reader: Of the clients' data.
        max_candidates: Most clients that are shown the model in a round, by opt-out.
    """

    def __init__(self, session: Session, reader: CohortReader, max_candidates: int) -> None:
        self._session, self._reader, self._max = session, reader, max_candidates

    def select(self, round_: int, first: CohortData, state: State) -> SelectedCohort:
        """Return those drawn ``first``, or by opt-out the willing ones among the candidates."""
        session, reader = self._session, self._reader
        size = session.spec.cohort
        if not session.spec.measures_everyone:
            return SelectedCohort(first, np.ones(size, bool))
        order = reader.candidates(round_, min(self._max, session.spec.seen))
        measured, wants = self._show(round_, first, state)
        for begin in range(len(wants), len(order), len(first.client_ids)):
            if wants.sum() >= size:
                break
            more = reader.learn(reader.read(order[begin : begin + len(first.client_ids)]))
            found = self._show(round_, more, state)
            measured, wants = jax.tree.map(np.append, (measured, wants), found)
        honest = ~session.is_byzantine[0, order[: len(wants)]]
        counts = int(honest.sum()), int((wants & honest).sum())
        # The willing ones in their order, then others, which do not participate.
        best = np.argsort(~wants, kind="stable")[:size]
        cohort = first
        if not np.array_equal(best, np.arange(size)):
            cohort = reader.read(order[best])
        measured = jax.tree.map(lambda values: values[best], measured)
        return SelectedCohort(cohort, wants[best], measured, *counts)

    def count(self, round_: int, selected: SelectedCohort, trained: CohortRecord) -> RoundCounts:
        """Count honest clients, int32[1] each."""
        session, client_ids = self._session, selected.cohort.client_ids
        honest = ~session.is_byzantine[0, client_ids]
        participated = int((np.asarray(trained.participated[0]) & honest).sum())
        responded, willing = selected.responded, selected.willing
        if responded is None:  # who is there when sampled says so by participating
            hparams = jax.tree.map(lambda a: a[0], session.hparams.participation)
            replied = _responds(session.hparams.seed[0], round_, hparams, client_ids)
            responded, willing = int((np.asarray(replied) & honest).sum()), participated
        return RoundCounts(*(np.array([n], np.int32) for n in (responded, willing, participated)))

    def _show(self, round_: int, cohort: CohortData, state: State) -> tuple[Any, Any]:
        """Return what a cohort's clients measure and whether they are willing, [n] each."""
        session = self._session
        sweep = Sweep(session.hparams, cohort.requirement, session.is_byzantine, state)
        client_ids = cohort.client_ids.astype(np.int32)
        found = show_candidates(session.spec, cohort.data, client_ids, sweep, np.int32(round_))
        measured, wants = jax.tree.map(lambda a: np.asarray(a)[0], found)
        return measured, wants


@jax.jit
def _responds(seed: Any, round_: Any, hparams: ParticipationHParams, client_ids: Any) -> Any:
    return responds(key(seed, Purpose.UNAVAILABLE, round_), hparams, client_ids)
