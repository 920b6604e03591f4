"""Privacy for weighted sums: bounded contributions, noise on every sum, and what that guarantees.

In a round a client adds (q Δ, q, a, d, 1, n) to the sums: Δ clipped to C, q ≤ ¼, a and d, bits for
"satisfied" and "declined", of which at most one is 1, and where the temperature follows the gaps n,
a bit for "near its requirement"; but no gap, which could be of any size. In units of (C/4, ¼, 1, 1,
1, 1) that is a vector no longer than S = √5, or S = 2 without n, so Gaussian noise of S·z of these
units makes the sums a Gaussian mechanism with noise multiplier z. Everything that is given away,
counts, normalisation, T_t and s_t included, is computed from the noisy sums. Each node is drawn by
itself with a fixed probability, and neither who was drawn nor how many is given away, so that
Poisson subsampling amplifies it.

Secure sums are modulo 2³², so noisy ones are taken modulo it too. Whatever others add, a client
then changes no more than by its term: without that, they could bring the sums to where one step
more is a jump from one end to the other, which no noise hides.

Two federations are neighbours if they differ in one client, which adds zeros in one of them
(zero-out, Kairouz et al., ICML 2021): that a client belongs to the federation is no secret, all
that its data do to the results is.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.flower.replies.arrays import Arrays
from maxfl.flower.secure.generator import Randomness
from maxfl.flower.sums import SCALARS, RoundSums
from maxfl.utils.errors import InputError, check_number

MIN_SIGNAL = 2.0
"""Below this many standard deviations of its noise, Σ q_k says nothing: no step is taken."""
MAX_MEANINGFUL_EPSILON = 100.0
"""A larger ε guarantees nothing, and need not be known exactly."""
LEVELS = 2**22
"""Steps between the smallest and the largest number that a client adds under secure aggregation."""
MODULUS = 2**32
"""Secure sums are whole numbers of such steps, modulo this."""
GRID_BITS = 10
"""Noisy sums are rounded to a grid of 2⁻¹⁰ of the noise's standard deviation, or up to half that.

The last bits of a sum of floats tell what was added (Mironov, CCS 2012); so they are left out.
"""


class Privacy(NamedTuple):
    """What the server may learn.

    Attributes:
        clip: C, the largest norm of a client's update; longer ones are made shorter.
        noise_multiplier: z; 0 adds no noise and so guarantees nothing of the sums.
        delta: δ, for which ε is computed.
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


def validate_privacy(privacy: Privacy) -> None:
    """Refuse settings that mean nothing."""
    check_number("privacy.clip", privacy.clip, above=0)
    check_number("privacy.noise_multiplier", privacy.noise_multiplier, least=0)
    check_number("privacy.delta", privacy.delta, above=0, below=1)
    if not privacy.private and not privacy.secure:
        raise InputError(
            "privacy has neither noise nor secure aggregation, so that it protects nothing: set "
            "noise_multiplier, or secure=True, or leave it out (for clipping alone: "
            "aggregator=maxfl.aggregators.mean(clip_norm=...))"
        )
    if privacy.private:
        _accounting()


def sensitivity(sums: RoundSums) -> float:
    """Return S, the length of the longest vector that a client adds, in the units above.

    Of a client that participates: 1 each for its update, its weight, that it is satisfied, that it
    is there, and that it is near its requirement, if that is counted. One that declines adds less.
    """
    return math.sqrt(4 if sums.near is None else 5)


def noise_unit(privacy: Privacy, sums: RoundSums, levels: int) -> float:
    """Return the noise's standard deviation in the units above, 0 without noise.

    ``levels`` are those of secure aggregation.
    """
    size = sum(array.size for array in sums.update.values())
    return privacy.noise_multiplier * (sensitivity(sums) + rounding_error(privacy, size, levels))


def add_noise(privacy: Privacy, sums: RoundSums, levels: int, rng: Randomness) -> RoundSums:
    """Return the sums that may be looked at; ``levels`` are those of secure aggregation."""
    if not privacy.private:
        return sums
    unit, period = noise_unit(privacy, sums, levels), MODULUS * rounding_step(privacy, levels)

    def noisy(value: Any, scale: float, period: float) -> NDArray[np.float64]:
        # In float64, whatever the model's type: rounding to it before would add to the sensitivity.
        exact = np.asarray(value, np.float64)
        total = exact + rng.normal(0.0, unit * scale, exact.shape)
        if privacy.secure:
            total = total - period * np.round(total / period)
        return snap(total, unit * scale)

    update: Arrays = {
        name: noisy(array, privacy.clip / 4, period) for name, array in sums.update.items()
    }
    return RoundSums(
        update,
        weight=float(noisy(sums.weight, 1 / 4, period)),
        satisfied=float(noisy(sums.satisfied, 1, 4 * period)),
        declined=float(noisy(sums.declined, 1, 4 * period)),
        responded=float(noisy(sums.responded, 1, 4 * period)),
        near=None if sums.near is None else float(noisy(sums.near, 1, 4 * period)),
        gaps=None,  # they have no bound that noise could hide
    )


def snap(noisy: NDArray[np.float64], noise_std: float) -> NDArray[np.float64]:
    """Round to multiples of a power of two, which are the same whatever the noise was added to."""
    grid = 2.0 ** (math.floor(math.log2(noise_std)) - GRID_BITS)
    return grid * np.round(noisy / grid)


def is_lost_in_noise(privacy: Privacy, sums: RoundSums) -> bool:
    """Return whether Σ q_k is no larger than noise: dividing by it would be a random step."""
    noise_std = privacy.noise_multiplier * sensitivity(sums) / 4
    return privacy.private and sums.weight < MIN_SIGNAL * noise_std


def poisson_sample(nodes: list[int], probability: float, rng: Randomness) -> list[int]:
    """Draw each node by itself with the same probability."""
    return [node for node in nodes if rng.random() < probability]


def epsilon(privacy: Privacy, probability: float, rounds: int) -> float | None:
    """Compute ε of (ε, δ) for a client after some rounds, by the accountant; None without noise."""
    if not privacy.private:
        return None
    if not rounds:
        return 0.0
    accounting = _accounting()
    event = accounting.GaussianDpEvent(privacy.noise_multiplier)
    if probability < 1:
        event = accounting.PoissonSampledDpEvent(probability, event)

    def bound(accountant: Any) -> float:
        return float(accountant.compose(event, rounds).get_epsilon(privacy.delta))

    with _without_excluded_orders():
        rough = bound(accounting.rdp.RdpAccountant())
    if rough >= MAX_MEANINGFUL_EPSILON:
        return rough
    # Privacy loss distributions are tighter, but take for ever where there is hardly any noise.
    return min(rough, bound(accounting.pld.PLDAccountant()))


def guarantee(privacy: Privacy, probability: float, rounds: int) -> dict[str, Any]:
    """Return the settings and the ε that they give, for the run's summary."""
    return privacy._asdict() | {
        "epsilon": epsilon(privacy, probability, rounds),
        "sampling_probability": probability,
        "rounds": rounds,
    }


def rounding_step(privacy: Privacy, levels: int) -> float:
    """Return what rounding changes at most in a number that a client adds, where bits are ¼.

    Secure aggregation rounds to whole numbers of it.
    """
    return 2 * privacy.span / levels if privacy.secure else 0.0


def rounding_error(privacy: Privacy, size: int, levels: int) -> float:
    """Return how much longer rounding can make what a client adds, in units of the sensitivity.

    ``size`` counts the model's parameters.
    """
    return 4 * rounding_step(privacy, levels) * math.sqrt(size / privacy.clip**2 + SCALARS)


@contextmanager
def _without_excluded_orders() -> Iterator[None]:
    """Keep dp-accounting from logging, once for each, Rényi orders that it can't compute.

    Harmless: every order gives a bound by itself, and the least of them is taken. With fewer of
    them ε can only come out larger; then the other accountant's is the smaller one anyway.
    """

    def matters(record: logging.LogRecord) -> bool:
        return "Excluding this order" not in record.getMessage()

    logger = logging.getLogger("absl")
    logger.addFilter(matters)
    try:
        yield
    finally:
        logger.removeFilter(matters)


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
