"""McNemar's exact test: do two methods satisfy as many of the same clients?

Of the clients that only one of two methods satisfies, b by A and c by B, half would be of each if
the methods did equally well: p = min(1, 2 P[X ≤ min(b, c)]), X binomial with b + c trials of 1/2
(McNemar, Psychometrika 12, 1947; exact: Agresti, "Categorical Data Analysis", 2013, sec. 11.1).

The test takes clients as independent, given the models, so every client may count once. Seeds with
clients of their own are pooled. Where the same clients are in several seeds, a client counts for
the method that satisfies it in more of them than the other, and not at all if both do so equally
often: a sign test over clients, which for one seed is McNemar's. It tells of the models
that were trained; whether other seeds would give such models too, intervals tell (``bootstrap``).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]


class McNemar(NamedTuple):
    """Clients that count for one method alone, and the two-sided p-value.

    Attributes:
        only_a: How many for A.
        only_b: How many for B.
        p: 1 where there are none.
    """

    only_a: int
    only_b: int
    p: float


def exact_mcnemar(only_a: int, only_b: int) -> McNemar:
    """Test whether clients that one method alone satisfies fall to both alike."""
    p = 2 * bdtr(min(only_a, only_b), only_a + only_b, 0.5)
    return McNemar(only_a, only_b, min(1.0, float(p)))


def mcnemar(
    a: Sequence[Flags], b: Sequence[Flags], clients: Sequence[Ints] | None = None
) -> McNemar:
    """Test over several seeds, in which every client counts once.

    Args:
        a: Whether A satisfies the clients of each seed, bool[K_s].
        b: The same of B.
        clients: Who they are, int[K_s] from 0, if the same clients are in several seeds.
    """
    leads = [x.astype(np.int64) - y for x, y in zip(a, b, strict=True)]
    lead = np.concatenate(leads) if leads else np.zeros(0, np.int64)
    if clients is not None and len(lead):
        lead = np.bincount(np.concatenate(list(clients)), weights=lead)
    return exact_mcnemar(int((lead > 0).sum()), int((lead < 0).sum()))
