"""Privacy for weighted sums: bounded contributions, noise on every sum, and what that guarantees.

In a round a client adds (q Δ, q, a, d, 1) to the sums: Δ clipped to C, q ≤ ¼, and a and d, bits for
"satisfied" and "declined", of which at most one is 1. In units of (C/4, ¼, 1, 1, 1) that is a
vector no longer than 2, so Gaussian noise of 2z of these units makes the sums a Gaussian mechanism
with noise multiplier z. Everything that is given away, counts and normalisation included, is
computed from the noisy sums. Each node is drawn by itself with a fixed probability, and neither who
was drawn nor how many is given away, so that Poisson subsampling amplifies it.

Two federations are neighbours if they differ in one client, which adds zeros in one of them
(zero-out, Kairouz et al., ICML 2021): that a client belongs to the federation is no secret, all
that its data do to the results is.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from maxfl.flower.replies import Arrays
from maxfl.flower.sums import Tally
from maxfl.utils.errors import InputError, check_number

SENSITIVITY = 2.0
"""Longest vector that a client adds, in the units above."""
LEAST_SIGNAL = 2.0
"""Σ q_k below so many deviations of its noise says nothing: the model stays as it was."""
MEANINGFUL = 100.0
"""An ε above guarantees nothing, and need not be known exactly."""
LEVELS = 2**22
"""Steps between the smallest and the largest number that a client adds under secure aggregation."""


class Privacy(NamedTuple):
    """What the server may learn.

    Attributes:
        clip: C, the largest norm of a client's update; longer ones are made shorter.
        noise_multiplier: z; 0 adds no noise and so guarantees nothing of the sums.
        delta: δ, for which ε is told.
        secure: Whether sums alone reach the server, by Flower's SecAgg+. Clients then need
            ``maxfl.flower.secure_mod`` before ``appeal_mod``.
    """

    clip: float
    noise_multiplier: float = 0.0
    delta: float = 1e-5
    secure: bool = False

    @property
    def private(self) -> bool:
        """Whether results are differentially private."""
        return self.noise_multiplier > 0

    @property
    def span(self) -> float:
        """Largest absolute value of anything that a client adds to a sum, where bits are ¼."""
        return max(self.clip, 1.0) / 4


def check(own: Privacy) -> None:
    """Refuse settings that mean nothing."""
    check_number("privacy.clip", own.clip, above=0)
    check_number("privacy.noise_multiplier", own.noise_multiplier, least=0)
    check_number("privacy.delta", own.delta, above=0, below=1)
    if not own.private and not own.secure:
        raise InputError(
            "privacy has neither noise nor secure aggregation, so that it protects nothing: set "
            "noise_multiplier, or secure=True, or leave it out (for clipping alone: robust=)"
        )
    if own.private:
        _accounting()


def add_noise(own: Privacy, sums: Tally, levels: int, rng: np.random.Generator) -> Tally:
    """The sums that may be looked at; ``levels`` are those of secure aggregation."""
    if not own.private:
        return sums
    size = sum(array.size for array in sums.weighted.values())
    unit = own.noise_multiplier * (SENSITIVITY + _rounding(own, size, levels))
    # In float64, whatever the model's type: rounding to it before would add to the sensitivity.
    weighted: Arrays = {
        name: array.astype(np.float64) + rng.normal(0.0, unit * own.clip / 4, array.shape)
        for name, array in sums.weighted.items()
    }
    scales = (unit / 4, unit, unit, unit)
    return Tally(weighted, *(x + rng.normal(0.0, s) for x, s in zip(sums[1:], scales, strict=True)))


def lost_in_noise(own: Privacy, sums: Tally) -> bool:
    """Whether Σ q_k can't be told from noise, so that dividing by it would be a random step."""
    return own.private and sums.weight < LEAST_SIGNAL * own.noise_multiplier * SENSITIVITY / 4


def draw(nodes: list[int], probability: float, rng: np.random.Generator) -> list[int]:
    """Each node by itself: Poisson sampling."""
    return [node for node in nodes if rng.random() < probability]


def epsilon(own: Privacy, probability: float, rounds: int) -> float | None:
    """ε of (ε, δ) for a client after so many rounds, by the accountant; None without noise."""
    if not own.private:
        return None
    if not rounds:
        return 0.0
    accounting = _accounting()
    event = accounting.GaussianDpEvent(own.noise_multiplier)
    if probability < 1:
        event = accounting.PoissonSampledDpEvent(probability, event)

    def bound(accountant: Any) -> float:
        return float(accountant.compose(event, rounds).get_epsilon(own.delta))

    rough = bound(accounting.rdp.RdpAccountant())
    # Privacy loss distributions are tighter, but take for ever where there is hardly any noise.
    return min(rough, bound(accounting.pld.PLDAccountant())) if rough < MEANINGFUL else rough


def guarantee(own: Privacy, probability: float, rounds: int) -> dict[str, Any]:
    """The settings and the ε that they give, for the run's summary."""
    return own._asdict() | {
        "epsilon": epsilon(own, probability, rounds),
        "sampling_probability": probability,
        "rounds": rounds,
    }


def _rounding(own: Privacy, size: int, levels: int) -> float:
    """How much longer rounding to whole numbers can make what a client adds, in the same units."""
    if not own.secure:
        return 0.0
    step = 2 * 4 * own.span / levels
    return step * math.sqrt(size / own.clip**2 + 4)


def _accounting() -> Any:
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError as error:
        raise InputError(
            "privacy with noise needs an accountant for its guarantee, which is not installed: "
            "pip install 'maxfl[privacy]'"
        ) from error
    return dp_accounting
