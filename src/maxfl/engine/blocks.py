"""How a run is cut into blocks, between which the host saves and shows progress."""

from typing import Any, NamedTuple

from maxfl.engine.experiment import Training
from maxfl.engine.programs import SKIP
from maxfl.engine.spec import Asked, Evaluation


class Block(NamedTuple):
    """What one call of the compiled program gave, on the host.

    Attributes:
        rounds: Rounds done at each of its evaluations, int[P].
        evaluation: [C, P, K] each.
        asked: [C, rounds of the block, m] each.
        survey: Of a stream, [C, rounds of the block] each; else ().
    """

    rounds: Any
    evaluation: Evaluation
    asked: Asked
    survey: Any = ()


def block_plans(training: Training) -> list[list[tuple[int, int]]]:
    """Blocks of periods (rounds done before, rounds to do); the first period does none."""
    total, every = training.rounds, training.evaluate_every
    starts = range(0, total, every)
    periods = [(0, 0)] + [(begin, min(every, total - begin)) for begin in starts]
    size = min(max(1, training.block // every), len(periods))
    blocks = [periods[i : i + size] for i in range(0, len(periods), size)]
    blocks[-1] += [(total, SKIP)] * (size - len(blocks[-1]))
    return blocks
