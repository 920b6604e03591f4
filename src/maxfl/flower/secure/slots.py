"""What a client adds to secure sums beside its update, where there are several models.

One slot for each model, of which all but one are zeros, so that nobody sees which one a client
trained: (q_k in slot j_k, ¼ in slot j_k, a_k/4, d_k/4, 1/4, n_k/4, g_k/4G, u_k/4G, v_k/4), where
u_k is how far its loss is above the requirement, up to G, and v_k whether it is. What stands behind
the slots is what a client adds where there is one model. Updates have slots likewise: their arrays
have a leading axis [models].
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.flower.replies.sort import MAX_GAP

ALONE = 6
"""Numbers that a client adds where there is one model."""
UNMET = 2
"""Those that only a portfolio needs, beside the slots."""


class Unpacked(NamedTuple):
    """Sums of what clients packed.

    Attributes:
        weights: Σ q_k by model.
        clients: How many trained each model.
        rest: What stands behind the weight where there is one model, as it was added.
        unmet_gaps: Σ u_k.
        unmet: Σ v_k.
    """

    weights: list[float]
    clients: list[float]
    rest: list[float]
    unmet_gaps: float
    unmet: float


def scalars_of(models: int) -> int:
    """Return how many numbers a client adds beside its update."""
    return ALONE if models == 1 else 2 * models + ALONE - 1 + UNMET


def pack(
    alone: NDArray[np.float64], models: int, number: int | None = None, unmet_gap: float = 0.0
) -> NDArray[np.float64]:
    """Return what a client adds beside its update; all of it is at most ¼.

    Args:
        alone: What it would add if there were one model, the weight first.
        models: K.
        number: The model that it trained; None where it trained none.
        unmet_gap: How far its loss is above the requirement.
    """
    slots = np.zeros((2, models))
    if number is not None:
        slots[:, number] = alone[0], 1 / 4
    unmet = min(unmet_gap, MAX_GAP) / MAX_GAP / 4, (unmet_gap > 0) / 4
    return np.concatenate([slots.ravel(), alone[1:], unmet])


def unpack(total: Sequence[Any], models: int) -> Unpacked:
    """Return the sums of what clients packed."""
    numbers = [float(number) for number in total]
    weights, clients = numbers[:models], numbers[models : 2 * models]
    *rest, share, unmet = numbers[2 * models :]
    return Unpacked(weights, [4 * c for c in clients], rest, 4 * MAX_GAP * share, 4 * unmet)
