"""A federation that stands still: nobody participates any more, up to its end.

Where all decline, the model stays as it was, and so does what they say of it: nobody comes back,
unless a round follows in which nobody may decline.
"""

from collections.abc import Sequence
from typing import NamedTuple

from maxfl.flower.round_log import Round
from maxfl.flower.sums import Counts

LEAST_ROUNDS = 2
"""So many rounds without anybody are a stall; one is not yet."""


class Stall(NamedTuple):
    """The last rounds, in none of which anybody participated.

    Attributes:
        first: Number of the first of them.
        rounds: How many there are.
        declined: Whether somebody declined in each.
        last: How clients answered in the last.
    """

    first: int
    rounds: int
    declined: bool
    last: Counts

    @property
    def text(self) -> str:
        """What happens and what to do, for people."""
        begin = f"nobody participated from round {self.first} on, for {self.rounds} rounds, so the "
        begin += "model stays as it was: "
        last = self.last
        if self.declined:
            return begin + (
                f"{last.declined} of {last.sampled} clients declined in the last one, and none "
                f"comes back to a model that does not change. Set min_participants (2, say), so "
                f"that nobody may decline in a round after one like these; let clients decline "
                f"later (decline_after); or have them require less"
            )
        return begin + (
            f"of {last.sampled} clients, {last.failed} failed and {last.rejected} replies were "
            f"rejected in the last one. rounds.log says why; see to the clients, give them more "
            f"time (timeout), and run it again"
        )


def stall_of(rounds: Sequence[Round]) -> Stall | None:
    """Return how a federation stands still; None if it does not."""
    idle = []
    for entry in reversed(rounds):
        if entry.counts.participated:
            break
        idle.append(entry)
    if len(idle) < LEAST_ROUNDS:
        return None
    declined = all(entry.counts.declined for entry in idle)
    return Stall(idle[-1].number, len(idle), declined, idle[0].counts)
