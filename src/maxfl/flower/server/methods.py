"""The algorithms that a federation on Flower can run: those that sums can express.

    maxfl, maxfl-auto, maxfl-annealed   weights q_k of the gap, at the temperature of the round
    fedavg, fedprox, scaffold, ifca     all weigh the same, which is q_k = ¼ at T = ∞
    hypcluster                          weights are the samples that clients claim
    qffl                                weights F_k^q, and a step along Σ q_k Δ_k / Σ h_k

FedProx and SCAFFOLD change local steps, which are the app's: it is told μ, as Flower's own FedProx
does, or the correction c − c_k.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from maxfl.algorithms import ALGORITHMS, maxfl, maxfl_auto
from maxfl.core.algorithm import Algorithm
from maxfl.utils.errors import InputError, check_number, shorten

AUTO: Literal["auto"] = "auto"
"""In place of a temperature: one that follows the clients' gaps."""
BY_WEIGHT = ("maxfl", "maxfl-auto", "maxfl-annealed")
"""Methods whose weights are q_k of the gap."""
ALIKE = ("fedavg", "fedprox", "scaffold", "ifca")
"""Methods in which all clients weigh the same."""
TERM_RATIO, FEWEST_TERMS = 10.0, 3
"""How far a term of q-FFL may be from the median of so many or more."""
SUPPORTED = (*BY_WEIGHT, *ALIKE, "hypcluster", "qffl")

_LOSSES = "its server reads every client's loss"
_PERSONAL = "its clients use models of their own"
_WEIGHTS = "its weights have no bound that the server could hold clients to"
REFUSED = {
    "afl": _LOSSES, "mwfed": _LOSSES,
    "perfedavg": _PERSONAL, "perfedavg-hf": _PERSONAL, "pfedme": _PERSONAL, "ditto": _PERSONAL,
    "maxfl-relu": _WEIGHTS, "maxfl-log": _WEIGHTS, "maxfl-exponential": _WEIGHTS,
    "scaffold-1": "its clients would train twice a round: take scaffold, which is its option II",
}  # fmt: skip
"""Why there is no such federation."""


def choose_algorithm(
    algorithm: Algorithm | str | None,
    temperature: float | Literal["auto"],
    scale: float | None,
    epsilon: float | None,
) -> Algorithm:
    """Return the algorithm that an operator chose: by itself, its name, or MaxFL by its numbers."""
    if algorithm is None:
        return _maxfl_by_numbers(temperature, scale, epsilon)
    if temperature != AUTO or scale is not None or epsilon is not None:
        raise InputError(
            "temperature=, scale= and epsilon= are MaxFL's, and algorithm= has numbers of its own: "
            "write algorithm=maxfl.maxfl(temperature=1.0, epsilon=0.001), say, or leave it out"
        )
    chosen = _by_name(algorithm) if isinstance(algorithm, str) else algorithm
    if not isinstance(chosen, Algorithm) or chosen.name not in SUPPORTED:
        raise InputError(_why_refused(algorithm, getattr(chosen, "name", "")))
    if any(np.ndim(number) for number in chosen.hparams):
        raise InputError(
            f"algorithm = {shorten(chosen)} has arrays, which are of a sweep: on Flower there is "
            f"one configuration"
        )
    if chosen.name == "fedavg" and weighs_by_samples(chosen) is None:
        raise InputError("fedavg(by_size=...): expected 0, all alike, or 1, by samples, on Flower")
    return chosen


def _maxfl_by_numbers(
    temperature: float | str, scale: float | None, epsilon: float | None
) -> Algorithm:
    """Return MaxFL with the numbers that are given."""
    chosen = {} if epsilon is None else {"epsilon": epsilon}
    if temperature == AUTO:
        if scale is not None:
            check_number("scale", scale, above=0)
        return maxfl_auto(scale=0.0 if scale is None else scale, **chosen)
    if isinstance(temperature, str):
        raise InputError(
            f'temperature = {temperature!r}: expected "auto", by which it follows the '
            f"clients' gaps, or a number"
        )
    if scale is not None:
        raise InputError(
            f"scale = {scale} is where a temperature begins that follows the clients' "
            f"gaps, and temperature = {temperature} does not: leave one of them out"
        )
    return maxfl(temperature, **chosen)


def _by_name(name: str) -> Algorithm | None:
    """Return a method with its defaults, by the name in tables or in Python."""
    known = name.replace("_", "-")
    return ALGORITHMS[known]() if known in ALGORITHMS else None


def _why_refused(given: Any, name: str) -> str:
    """Return why there is no federation by what was given."""
    known = f"expected one of {', '.join(SUPPORTED)}"
    if name in REFUSED:
        return f"algorithm = {name}: not on Flower, since {REFUSED[name]}; {known}"
    if name:
        return (
            f"algorithm = {name}: a method of your own runs in simulations; on Flower, apps train, "
            f"and the server knows the steps of {', '.join(SUPPORTED)} alone"
        )
    return f"algorithm = {shorten(given)}: {known}, or one made by maxfl.fedprox(0.1), say"


def weighs_by_samples(algorithm: Algorithm) -> bool | None:
    """Return whether clients weigh by their samples; None if neither by them nor otherwise."""
    if algorithm.name not in ("fedavg", "hypcluster"):
        return False
    return {0.0: False, 1.0: True}.get(float(algorithm.hparams.by_size))


def epsilon_of(algorithm: Algorithm) -> float:
    """Return ε of the server's step; only MaxFL has one."""
    return float(algorithm.hparams.epsilon) if algorithm.name in BY_WEIGHT else 0.0


def fairness_of(algorithm: Algorithm) -> float | None:
    """Return q of q-FFL, None of other methods."""
    return float(algorithm.hparams.q) if algorithm.name == "qffl" else None


def pull_of(algorithm: Algorithm) -> float | None:
    """Return μ of FedProx, None of other methods."""
    return float(algorithm.hparams.mu) if algorithm.name == "fedprox" else None


def sum_steepness(
    q: float, local_lr: float, weights: Sequence[float], norms: Sequence[float]
) -> float:
    """Compute Σ q_k h_k · η_l of q-FFL: F_k^q + q F_k^(q−1) ‖Δ_k‖²/η_l, of the weights F_k^q.

    So that no client can lie about h_k: the server knows all that is in it. One that claims a loss
    near 0 could make its second part as large as it likes, and the step as short, where q < 1: so
    that counts as ``TERM_RATIO`` times the lower median of terms at most, or times its own weight.
    No term is below F_k^q, so that no step is longer than the longest update. It may not be finite.
    """
    f, square = np.asarray(weights, np.float64), np.square(np.asarray(norms, np.float64))
    if q == 0:
        return float(f.sum())
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        pull = q * np.exp(np.log(f) * (q - 1) / q) * square / local_lr
    pull = np.where(square > 0, pull, 0.0)  # not ∞ · 0 where a client sends back what it was sent
    if len(f) >= FEWEST_TERMS:
        typical = np.sort(f + pull)[(len(f) - 1) // 2]
        pull = np.minimum(pull, TERM_RATIO * np.maximum(typical, f))
    return float((f + pull).sum())
