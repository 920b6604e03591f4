"""Plain-NumPy reference of robust means and server optimisers, in the manner of `oracle.py`.

Written from the papers and formulas alone: slow and obvious on purpose, float64 throughout, no
randomness. Arguments are never written to; state comes in as an argument and goes out as a result.
"""

import math
from typing import NamedTuple

import numpy as np

from support.oracle import Floats, Params, add_scaled
from support.oracle_methods import full_like, scaled, zeros_like

# ----------------------------------------------------------------------------- robust means


def present(updates: Floats, q: Floats) -> list[int]:
    """Return the rows of updates[m, d] that participate, those with q_i > 0, in order."""
    if len(updates) != len(q) or any(float(entry) < 0.0 for entry in q):
        raise ValueError("one weight of at least 0 is needed for each update")
    return [i for i in range(len(q)) if float(q[i]) > 0.0]


def sorted_column(updates: Floats, q: Floats, column: int) -> list[tuple[float, float]]:
    """Return (value, weight) of one coordinate over the present updates, smallest value first."""
    pairs = [(float(updates[i, column]), float(q[i])) for i in present(updates, q)]
    return sorted(pairs, key=lambda pair: pair[0])


def weighted_median(updates: Floats, q: Floats) -> Floats:
    """Return per coordinate the weighted median of updates[m, d]; 0 when no weight is positive.

    With x_1 ≤ x_2 ≤ … and weights q_i > 0 it is x_j for the first j with Σ_{i≤j} q_i ≥ ½ Σ q,
    or ½ (x_j + x_{j+1}) if that is an equality: within 1e-12 of Σ q, so as not to depend on the
    weights' scale.
    """
    result = np.zeros(updates.shape[1])
    for column in range(updates.shape[1]):
        pairs = sorted_column(updates, q, column)
        total = sum(share for _, share in pairs)
        reached = 0.0
        for j, (value, share) in enumerate(pairs):
            reached += share
            if abs(reached - total / 2.0) <= 1e-12 * total and j + 1 < len(pairs):
                result[column] = (value + pairs[j + 1][0]) / 2.0
                break
            if reached >= total / 2.0:
                result[column] = value
                break
    return result


def trimmed_mean(updates: Floats, q: Floats, beta: float) -> Floats:
    """Return per coordinate Σ p_i x_i / Σ p_i over updates[m, d]; 0 when no weight is positive.

    p is q less the mass β Σ q taken from the smallest values upwards and as much from the
    largest values downwards; the value at the edge of a cut loses only a part of its weight.
    """
    if not 0.0 <= beta < 0.5:
        raise ValueError(f"the trim share {beta} is not in [0, 0.5)")
    result = np.zeros(updates.shape[1])
    for column in range(updates.shape[1]):
        pairs = sorted_column(updates, q, column)
        if not pairs:
            continue
        values = [value for value, _ in pairs]
        left = [share for _, share in pairs]
        total = sum(left)
        for order in (range(len(left)), reversed(range(len(left)))):
            to_cut = beta * total
            for i in order:
                cut = min(left[i], to_cut)
                left[i] -= cut
                to_cut -= cut
        kept = [(value, share) for value, share in zip(values, left, strict=True) if share > 0.0]
        weighted = sum(share * value for value, share in kept)
        result[column] = weighted / sum(share for _, share in kept)
    return result


def krum(updates: Floats, q: Floats, f: int, keep: int = 1) -> Floats:
    """Return Krum (keep 1) or multi-Krum of updates[m, d] (Blanchard et al., NeurIPS 2017).

    Over the n updates with q_i > 0: score_i = Σ ‖x_i − x_j‖² over the max(n − f − 2, 1) nearest
    others j; the `keep` lowest scores (all n if there are fewer; of equal ones the earlier row)
    give Σ q_i x_i / Σ q_i. The weights play no part in the scores. 0 when no weight is positive.
    """
    if f < 0 or keep < 1:
        raise ValueError(f"f = {f} is below 0 or keep = {keep} is below 1")
    rows = present(updates, q)
    near = max(len(rows) - f - 2, 1)
    scored = []
    for i in rows:
        distances = [float(np.sum((updates[i] - updates[j]) ** 2)) for j in rows if j != i]
        scored.append((sum(sorted(distances)[:near]), i))
    chosen = [i for _, i in sorted(scored)[:keep]]
    result = np.zeros(updates.shape[1])
    total = sum(float(q[i]) for i in chosen)
    for i in chosen:
        result = result + (float(q[i]) / total) * updates[i]
    return result


def clip_norm(vector: Floats, limit: float) -> Floats:
    """Return v · min(1, C / ‖v‖), the vector with its norm cut down to C; 0 stays 0."""
    norm = math.sqrt(float(np.sum(vector**2)))
    return vector * (limit / norm) if norm > limit else vector.copy()


# ----------------------------------------------------------------------------- optimisers


class Moments(NamedTuple):
    """State of `adam` and `yogi`: both moments, and the number t of steps taken."""

    m: Params
    v: Params
    t: int


def momentum(
    params: Params, direction: Params, velocity: Params, server_lr: float, beta: float
) -> tuple[Params, Params]:
    """Return w − η_g m and m, with m ← β m + d (FedAvgM; Hsu et al., 2019). m starts at 0."""
    velocity = add_scaled(scaled(velocity, beta), direction, 1.0)
    return add_scaled(params, velocity, -server_lr), velocity


def adam_start(params: Params) -> Moments:
    """Return Adam's state before the first step: m = 0, v = 0, t = 0."""
    return Moments(zeros_like(params), zeros_like(params), 0)


def yogi_start(params: Params, accumulator: float = 1e-6) -> Moments:
    """Return Yogi's state before the first step, as optax has it: m = v = 1e-6, t = 0."""
    return Moments(full_like(params, accumulator), full_like(params, accumulator), 0)


def corrected_step(
    params: Params, moments: Moments, server_lr: float, b1: float, b2: float, eps: float
) -> Params:
    """Return w − η_g · (m / (1 − β₁^t)) / (√(v / (1 − β₂^t)) + ε), entry by entry."""
    m_scale, v_scale = 1.0 - b1**moments.t, 1.0 - b2**moments.t
    result: Params = []
    for layer, m_layer, v_layer in zip(params, moments.m, moments.v, strict=True):
        weights, bias = (
            part - server_lr * (m / m_scale) / (np.sqrt(v / v_scale) + eps)
            for part, m, v in zip(layer, m_layer, v_layer, strict=True)
        )
        result.append((weights, bias))
    return result


def adam(
    params: Params,
    direction: Params,
    state: Moments,
    server_lr: float,
    b1: float,
    b2: float,
    eps: float,
) -> tuple[Params, Moments]:
    """Return FedAdam's new w and state (Reddi et al., ICLR 2021, with Adam's bias correction).

    t ← t + 1, m ← β₁ m + (1 − β₁) d, v ← β₂ v + (1 − β₂) d², then `corrected_step`.
    """
    squares: Params = [(weights**2, bias**2) for weights, bias in direction]
    m = add_scaled(scaled(state.m, b1), direction, 1.0 - b1)
    v = add_scaled(scaled(state.v, b2), squares, 1.0 - b2)
    new = Moments(m, v, state.t + 1)
    return corrected_step(params, new, server_lr, b1, b2, eps), new


def yogi(
    params: Params,
    direction: Params,
    state: Moments,
    server_lr: float,
    b1: float,
    b2: float,
    eps: float,
) -> tuple[Params, Moments]:
    """Return FedYogi's new w and state (Reddi et al., ICLR 2021, as optax.scale_by_yogi does it).

    t ← t + 1, m ← β₁ m + (1 − β₁) d, v ← v − (1 − β₂) sign(v − d²) d², then `corrected_step`.
    """
    m = add_scaled(scaled(state.m, b1), direction, 1.0 - b1)
    v: Params = []
    for (v_weights, v_bias), (weights, bias) in zip(state.v, direction, strict=True):
        change_weights = np.sign(v_weights - weights**2) * weights**2
        change_bias = np.sign(v_bias - bias**2) * bias**2
        v.append((v_weights - (1.0 - b2) * change_weights, v_bias - (1.0 - b2) * change_bias))
    new = Moments(m, v, state.t + 1)
    return corrected_step(params, new, server_lr, b1, b2, eps), new
