"""What a client adds to secure sums beside its update, where there are several models.

One slot for each model, of which all but one are zeros, so that nobody sees which one a client
trained: q_k, ¼, v_k/4 and u_k/4G in slot j_k, and (a_k/4, d_k/4, 1/4, n_k/4, g_k/4G) behind the
slots, where u_k is how far its loss is above the requirement, up to G, and v_k whether it is. What
stands behind the slots is what a client adds where there is one model. Updates have slots likewise:
their arrays have a leading axis [models].
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.flower.replies.sort import MAX_GAP

ALONE = 6
"""Numbers that a client adds where there is one model."""
SLOT = 4
"""Numbers in the slot of a model."""


class Unpacked(NamedTuple):
    """Sums of what clients packed.

    Attributes:
        weights: Σ q_k by model.
        clients: How many trained each model.
        unmet: Σ v_k by model.
        unmet_gaps: Σ u_k by model.
        rest: What stands behind the weight where there is one model, as it was added.
    """

    weights: list[float]
    clients: list[float]
    unmet: list[float]
    unmet_gaps: list[float]
    rest: list[float]


def scalars_of(models: int) -> int:
    """Return how many numbers a client adds beside its update."""
    return ALONE if models == 1 else SLOT * models + ALONE - 1


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
    slots = np.zeros((SLOT, models))
    if number is not None:
        share = min(unmet_gap, MAX_GAP) / MAX_GAP
        slots[:, number] = alone[0], 1 / 4, (unmet_gap > 0) / 4, share / 4
    return np.concatenate([slots.ravel(), alone[1:]])


def unpack(total: Sequence[Any], models: int) -> Unpacked:
    """Return the sums of what clients packed."""
    numbers = [float(number) for number in total]
    slots = [numbers[first : first + models] for first in range(0, SLOT * models, models)]
    weights, clients, unmet, unmet_gaps = (
        [unit * n for n in one] for unit, one in zip((1, 4, 4, 4 * MAX_GAP), slots, strict=True)
    )
    return Unpacked(weights, clients, unmet, unmet_gaps, numbers[SLOT * models :])
