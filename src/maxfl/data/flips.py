"""Maps of labels for clients that contradict the others: labels change their meaning.

The paper flips the labels of some clients and does not say how; see docs/paper.md.
"""

import numpy as np
from numpy.typing import NDArray

from maxfl.errors import check_choice

FLIPS = ("reverse", "shift", "permute")


def label_map(name: str, classes: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """New label of each label, int32[classes].

    reverse: y → classes − 1 − y (the middle one of an odd number stays); shift: y → y + 1, the
    last becomes the first; permute: along one random cycle through all labels.
    """
    check_choice("data.flip", name, FLIPS)
    labels = np.arange(classes, dtype=np.int32)
    if name == "reverse":
        return labels[::-1].copy()
    cycle = labels if name == "shift" else rng.permutation(labels)
    new = np.empty_like(labels)
    new[cycle] = np.roll(cycle, -1)
    return new
