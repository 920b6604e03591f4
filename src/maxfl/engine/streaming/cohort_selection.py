"""Who trains in a round of a federation on disk, and what their answers tell of all.

By opt-out, candidates are shown the model in random order, as many at a time as a cohort has, until
enough are willing or so many as may be asked were asked. The order is that of the engine's draw, so
the cohort is the one that would be drawn among all willing clients, if only enough are asked.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from maxfl.core.participation import Presence, answers
from maxfl.core.prng import Purpose, key
from maxfl.engine.history import Survey
from maxfl.engine.programs import ask
from maxfl.engine.simulation import Simulation
from maxfl.engine.spec import Asked, State
from maxfl.engine.streaming.cohort_reader import Window, Windows


class Gathered(NamedTuple):
    """A cohort that can be trained.

    Attributes:
        window: m clients, of which some may be placeholders.
        sampled: Which of them are real, bool[m].
        losses: F_k(w), where clients were asked before, float32[m]; else ().
        answered: Honest clients that said whether they were willing; None where it shows later.
        willing: Those of them that were.
    """

    window: Window
    sampled: NDArray[np.bool_]
    losses: Any = ()
    answered: int | None = None
    willing: int = 0


def gather(
    own: Simulation, windows: Windows, most: int, round_: int, window: Window, state: State
) -> Gathered:
    """Those that are asked first, or by opt-out the willing ones among at most so many."""
    cohort = own.spec.cohort
    if not own.spec.watches:
        return Gathered(window, np.ones(cohort, bool))
    order = windows.candidates(round_, min(most, own.federation.seen))
    losses, wants = _show(own, round_, window, state)
    for begin in range(len(losses), len(order), len(window.clients)):
        if wants.sum() >= cohort:
            break
        more = windows.learn(windows.read(order[begin : begin + len(window.clients)]))
        found = _show(own, round_, more, state)
        losses, wants = np.append(losses, found[0]), np.append(wants, found[1])
    honest = ~own.lies[0, order[: len(losses)]]
    counts = int(honest.sum()), int((wants & honest).sum())
    # The willing ones in their order, then others, which take no part.
    first = np.argsort(~wants, kind="stable")[:cohort]
    if not np.array_equal(first, np.arange(cohort)):
        window = windows.read(order[first])
    return Gathered(window, wants[first], losses[first], *counts)


def survey(own: Simulation, round_: int, gathered: Gathered, asked: Asked) -> Survey:
    """Counts of honest clients, int32[1] each."""
    clients = gathered.window.clients
    honest = ~own.lies[0, clients]
    took_part = int((np.asarray(asked.took_part[0]) & honest).sum())
    answered, willing = gathered.answered, gathered.willing
    if answered is None:  # who answers when asked to train says so by taking part
        presence = jax.tree.map(lambda a: a[0], own.numbers.presence)
        heard = _answers(own.numbers.seed[0], round_, presence, clients)
        answered, willing = int((np.asarray(heard) & honest).sum()), took_part
    return Survey(*(np.array([n], np.int32) for n in (answered, willing, took_part)))


def _show(own: Simulation, round_: int, window: Window, state: State) -> tuple[Any, Any]:
    """F_k(w) of a window's clients and whether they are willing, [n] each."""
    sweep = own.numbers, window.requirement, own.lies, state
    names = window.clients.astype(np.int32)
    found = ask(own.spec, window.data, names, sweep, np.int32(round_))
    loss, wants = (np.asarray(a)[0] for a in found)
    return loss, wants


@jax.jit
def _answers(seed: Any, round_: Any, presence: Presence, clients: Any) -> Any:
    return answers(key(seed, Purpose.UNAVAILABLE, round_), presence, clients)
