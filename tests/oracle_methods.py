"""Plain-NumPy reference of other federated methods, robust means and server optimisers.

Written from the papers and formulas alone, on top of `oracle.py`, and in its manner: slow and
obvious on purpose, one client after another, one step after another, float64 throughout, no
randomness. Arguments are never written to; state comes in as an argument and goes out as a result.

Throughout, w is the model the server sends, F_k(w) is the loss of w over all training data of
client k (always of the incoming w, never of the new one), Δ_k = w − w_k is the client's update,
and `gradient_of(k, v, draw)` is ∇F_k(v) on client k's minibatch number `draw`. An empty cohort
leaves the model and all state as they were.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from oracle import Client, Floats, Params, add_scaled, loss, server_step, sigmoid, weight

GradientOf: TypeAlias = Callable[[int, Params, int], Params]  # (client, model, draw)
Surrogate: TypeAlias = Literal["sigmoid", "relu", "log", "exp"]


# ----------------------------------------------------------------------------- helpers


def zeros_like(params: Params) -> Params:
    """Return 0 in the shapes of params."""
    return [(np.zeros(weights.shape), np.zeros(bias.shape)) for weights, bias in params]


def full_like(params: Params, value: float) -> Params:
    """Return value · 1 in the shapes of params."""
    return [(np.full(weights.shape, value), np.full(bias.shape, value)) for weights, bias in params]


def scaled(params: Params, scale: float) -> Params:
    """Return scale · params."""
    return [(scale * weights, scale * bias) for weights, bias in params]


def minus(left: Params, right: Params) -> Params:
    """Return left − right."""
    return add_scaled(left, right, -1.0)


def squared_norm(params: Params) -> float:
    """Return ‖params‖², the sum of squares over all layers."""
    total = 0.0
    for weights, bias in params:
        total += float(np.sum(weights**2)) + float(np.sum(bias**2))
    return total


def to_vector(params: Params) -> Floats:
    """Return params as one vector: W_0 row by row, b_0, W_1, b_1, and so on."""
    return np.concatenate([part.ravel() for layer in params for part in layer])


def from_vector(vector: Floats, like: Params) -> Params:
    """Return the params, in the shapes of `like`, whose `to_vector` is the vector."""
    result: Params = []
    start = 0
    for weights, bias in like:
        middle, end = start + weights.size, start + weights.size + bias.size
        layer = vector[start:middle].reshape(weights.shape), vector[middle:end].reshape(bias.shape)
        result.append((layer[0].copy(), layer[1].copy()))
        start = end
    if start != vector.size:
        raise ValueError(f"a vector of {vector.size} entries for params of {start}")
    return result


def members(clients: Sequence[Client], cohort: Sequence[int]) -> list[int]:
    """Return the cohort, having checked that it names clients 0..M−1, none of them twice."""
    if len(set(cohort)) != len(cohort) or any(not 0 <= k < len(clients) for k in cohort):
        raise ValueError(f"the cohort {list(cohort)} is not a set of {len(clients)} clients")
    return list(cohort)


def sgd(params: Params, k: int, gradient_of: GradientOf, steps: int, lr: float) -> Params:
    """Return w_k after w_k ← w_k − η_l g(w_k, r) for r = 0..τ−1, from w_k = w."""
    tuned = params
    for r in range(steps):
        tuned = add_scaled(tuned, gradient_of(k, tuned, r), -lr)
    return tuned


def mean_step(params: Params, deltas: Sequence[Params], server_lr: float) -> Params:
    """Return w − η_g · 1/m Σ_k Δ_k, FedAvg's server step; w when there are no deltas."""
    return server_step(params, deltas, [1.0] * len(deltas), float(len(deltas)), server_lr)


# ----------------------------------------------------------------------------- 1. FedProx


def fedprox_round(
    params: Params,
    clients: Sequence[Client],
    cohort: Sequence[int],
    gradient_of: GradientOf,
    steps: int,
    lr: float,
    server_lr: float,
    mu: float,
) -> Params:
    """Return FedProx's w − η_g · 1/m Σ_k Δ_k (Li et al., MLSys 2020).

    Client: w_k ← w_k − η_l (g(w_k, r) + μ (w_k − w)) for r = 0..τ−1, from w_k = w.
    """
    deltas = []
    for k in members(clients, cohort):
        tuned = params
        for r in range(steps):
            step = add_scaled(gradient_of(k, tuned, r), minus(tuned, params), mu)
            tuned = add_scaled(tuned, step, -lr)
        deltas.append(minus(params, tuned))
    return mean_step(params, deltas, server_lr)


# ----------------------------------------------------------------------------- 2. SCAFFOLD


def scaffold_round(
    params: Params,
    clients: Sequence[Client],
    cohort: Sequence[int],
    gradient_of: GradientOf,
    steps: int,
    lr: float,
    server_lr: float,
    control: Params,
    client_controls: Mapping[int, Params],
    option: Literal[1, 2] = 2,
) -> tuple[Params, Params, dict[int, Params]]:
    """Return SCAFFOLD's new w, c and all known c_k (Karimireddy et al., ICML 2020, Algorithm 1).

    Client, from y = w: y ← y − η_l (g(y, r) + c − c_k) for r = 0..τ−1; a missing c_k is 0.
    Option 1: c_k⁺ = 1/τ Σ_r g(w, r). Option 2: c_k⁺ = c_k − c + (w − y) / (τ η_l).
    Server: w − η_g · 1/m Σ_k (w − y_k), and c + 1/M Σ_k (c_k⁺ − c_k), M being all the clients.
    All clients of the round see the c of its start.
    """
    if option not in (1, 2):
        raise ValueError(f"option {option} is neither 1 nor 2")
    deltas = []
    new_control = control
    new_client_controls = dict(client_controls)
    for k in members(clients, cohort):
        own = client_controls.get(k, zeros_like(params))
        tuned = params
        for r in range(steps):
            step = minus(add_scaled(gradient_of(k, tuned, r), control, 1.0), own)
            tuned = add_scaled(tuned, step, -lr)
        delta = minus(params, tuned)
        if option == 1:
            new_own = zeros_like(params)
            for r in range(steps):
                new_own = add_scaled(new_own, gradient_of(k, params, r), 1.0 / steps)
        else:
            new_own = add_scaled(minus(own, control), delta, 1.0 / (steps * lr))
        deltas.append(delta)
        new_control = add_scaled(new_control, minus(new_own, own), 1.0 / len(clients))
        new_client_controls[k] = new_own
    return mean_step(params, deltas, server_lr), new_control, new_client_controls


# ----------------------------------------------------------------------------- 3. Per-FedAvg


def perfedavg_round(
    params: Params,
    clients: Sequence[Client],
    cohort: Sequence[int],
    gradient_of: GradientOf,
    steps: int,
    lr: float,
    server_lr: float,
    alpha: float,
    delta: float | None = None,
) -> Params:
    """Return Per-FedAvg's w − η_g · 1/m Σ_k Δ_k (Fallah et al., NeurIPS 2020).

    First order (δ None), r = 0..τ−1: w′ = w_k − α g(w_k, 2r); w_k ← w_k − η_l g(w′, 2r+1).
    Hessian-free: w′ = w_k − α g(w_k, 3r), G = g(w′, 3r+1), and with the Hessian-vector product
    H = (g(w_k + δG, 3r+2) − g(w_k − δG, 3r+2)) / (2δ): w_k ← w_k − η_l (G − α H).
    """
    deltas = []
    for k in members(clients, cohort):
        tuned = params
        for r in range(steps):
            if delta is None:
                adapted = add_scaled(tuned, gradient_of(k, tuned, 2 * r), -alpha)
                step = gradient_of(k, adapted, 2 * r + 1)
            else:
                adapted = add_scaled(tuned, gradient_of(k, tuned, 3 * r), -alpha)
                outer = gradient_of(k, adapted, 3 * r + 1)
                ahead = gradient_of(k, add_scaled(tuned, outer, delta), 3 * r + 2)
                behind = gradient_of(k, add_scaled(tuned, outer, -delta), 3 * r + 2)
                product = scaled(minus(ahead, behind), 1.0 / (2.0 * delta))
                step = add_scaled(outer, product, -alpha)
            tuned = add_scaled(tuned, step, -lr)
        deltas.append(minus(params, tuned))
    return mean_step(params, deltas, server_lr)


# ----------------------------------------------------------------------------- 4. q-FFL


def qffl_round(
    params: Params,
    clients: Sequence[Client],
    cohort: Sequence[int],
    gradient_of: GradientOf,
    steps: int,
    lr: float,
    server_lr: float,
    q: float,
) -> Params:
    """Return q-FedAvg's w − η_g · Σ_k D_k / Σ_k h_k (Li et al., ICLR 2020, L = 1/η_l).

    With w_k after τ SGD steps, g_k = (w − w_k) / η_l and F = F_k(w) + 1e-10:
    D_k = F^q g_k and h_k = q F^(q−1) ‖g_k‖² + F^q / η_l.
    """
    directions = []
    curvatures = []
    for k in members(clients, cohort):
        tuned = sgd(params, k, gradient_of, steps, lr)
        pseudo = scaled(minus(params, tuned), 1.0 / lr)
        value = loss(params, *clients[k]) + 1e-10
        directions.append(scaled(pseudo, value**q))
        curvatures.append(q * value ** (q - 1.0) * squared_norm(pseudo) + value**q / lr)
    return server_step(params, directions, [1.0] * len(directions), sum(curvatures), server_lr)


# ----------------------------------------------------------------------------- 5. AFL


def project_simplex(v: Floats) -> Floats:
    """Return argmin ‖p − v‖ over p ≥ 0, Σ p = 1: p_i = max(v_i − θ, 0).

    With u = v sorted downwards, j is the largest number with u_j > (Σ_{i≤j} u_i − 1) / j, and
    θ = (Σ_{i≤j} u_i − 1) / j (Duchi et al., ICML 2008).
    """
    theta = 0.0
    total = 0.0
    for j, u in enumerate(sorted((float(entry) for entry in v), reverse=True), start=1):
        total += u
        if u > (total - 1.0) / j:
            theta = (total - 1.0) / j
    return np.maximum(np.asarray(v, dtype=np.float64) - theta, 0.0)


def afl_round(
    params: Params,
    clients: Sequence[Client],
    cohort: Sequence[int],
    gradient_of: GradientOf,
    steps: int,
    lr: float,
    server_lr: float,
    lambdas: Floats,
    gamma: float,
) -> tuple[Params, Floats]:
    """Return agnostic FL's new w and λ[M] (Mohri et al., ICML 2019; λ starts at 1/M each).

    After τ SGD steps: w − η_g · Σ λ_k Δ_k / Σ λ_k over the cohort, w itself when Σ λ_k = 0; then
    λ_k ← λ_k + γ F_k(w) for k in the cohort, and λ ← its projection onto the simplex.
    """
    if len(lambdas) != len(clients):
        raise ValueError(f"{len(lambdas)} weights for {len(clients)} clients")
    if len(cohort) == 0:
        return params, lambdas
    deltas = []
    shares = []
    moved = np.array(lambdas, dtype=np.float64)
    for k in members(clients, cohort):
        deltas.append(minus(params, sgd(params, k, gradient_of, steps, lr)))
        shares.append(float(lambdas[k]))
        moved[k] += gamma * loss(params, *clients[k])
    updated = server_step(params, deltas, shares, sum(shares), server_lr)
    return updated, project_simplex(moved)


# ----------------------------------------------------------------------------- 6. MW-Fed


def mwfed_round(
    params: Params,
    clients: Sequence[Client],
    cohort: Sequence[int],
    gradient_of: GradientOf,
    steps: int,
    lr: float,
    server_lr: float,
    log_weights: Floats,
    rho: Sequence[float],
    factor: float,
) -> tuple[Params, Floats]:
    """Return the new w and log W[M] of federated learning by multiplicative weights.

    s_k = exp(log W_k − max_j log W_j), j over all M clients. Client k does
    max(1, round(τ s_k)) SGD steps, halves to the even number. Server: w − η_g · Σ s_k Δ_k / Σ s_k
    over the cohort; then log W_k ← log W_k + log(factor) for k in it with F_k(w) ≥ ρ_k.
    log W starts at 0.
    """
    if len(log_weights) != len(clients):
        raise ValueError(f"{len(log_weights)} weights for {len(clients)} clients")
    deltas = []
    shares = []
    moved = np.array(log_weights, dtype=np.float64)
    largest = max(float(entry) for entry in log_weights)
    for k in members(clients, cohort):
        share = math.exp(float(log_weights[k]) - largest)
        own_steps = max(1, round(steps * share))  # Python's round takes halves to even
        deltas.append(minus(params, sgd(params, k, gradient_of, own_steps, lr)))
        shares.append(share)
        if loss(params, *clients[k]) >= rho[k]:
            moved[k] += math.log(factor)
    return server_step(params, deltas, shares, sum(shares), server_lr), moved


# ----------------------------------------------------------------------------- 7. pFedMe


def pfedme_round(
    params: Params,
    clients: Sequence[Client],
    cohort: Sequence[int],
    gradient_of: GradientOf,
    steps: int,
    lr: float,
    server_lr: float,
    lam: float,
    inner_steps: int,
    inner_lr: float,
) -> tuple[Params, dict[int, Params]]:
    """Return pFedMe's w − η_g · 1/m Σ_k (w − w_k) and θ_k (Dinh et al., NeurIPS 2020).

    Client, from w_k = θ = w, for r = 0..τ−1: K times θ ← θ − α (g(θ, r) + λ (θ − w_k)), all on
    minibatch r; then w_k ← w_k − η_l λ (w_k − θ). θ goes on from one r to the next.
    """
    deltas = []
    personal: dict[int, Params] = {}
    for k in members(clients, cohort):
        tuned = params
        theta = params
        for r in range(steps):
            for _ in range(inner_steps):
                step = add_scaled(gradient_of(k, theta, r), minus(theta, tuned), lam)
                theta = add_scaled(theta, step, -inner_lr)
            tuned = add_scaled(tuned, minus(tuned, theta), -lr * lam)
        deltas.append(minus(params, tuned))
        personal[k] = theta
    return mean_step(params, deltas, server_lr), personal


# ----------------------------------------------------------------------------- 8. Ditto


def ditto_round(
    params: Params,
    clients: Sequence[Client],
    cohort: Sequence[int],
    gradient_of: GradientOf,
    steps: int,
    lr: float,
    server_lr: float,
    personal: Mapping[int, Params],
    lam: float,
) -> tuple[Params, dict[int, Params]]:
    """Return FedAvg's new w and all known v_k of Ditto (Li et al., ICML 2021).

    v_k ← v_k − η_l (g(v_k, r) + λ (v_k − w)) for r = 0..τ−1, w being the received model; a
    client without v_k starts it at w. The global steps use the same minibatches r.
    """
    deltas = []
    new_personal = dict(personal)
    for k in members(clients, cohort):
        deltas.append(minus(params, sgd(params, k, gradient_of, steps, lr)))
        own = personal.get(k, params)
        for r in range(steps):
            step = add_scaled(gradient_of(k, own, r), minus(own, params), lam)
            own = add_scaled(own, step, -lr)
        new_personal[k] = own
    return mean_step(params, deltas, server_lr), new_personal


# ----------------------------------------------------------------------------- 9. surrogates


def surrogate_weight(gap: float, temperature: float, surrogate: Surrogate) -> float:
    """Return q of z = gap / T, the derivative at z of the surrogate of [z > 0].

    sigmoid: σ(z)(1 − σ(z)). relu: 1 if z > 0, else 0. log (of 1 + e^z): σ(z). exp: e^min(z, 30).
    """
    z = gap / temperature
    if surrogate == "sigmoid":
        return weight(gap, temperature)
    if surrogate == "relu":
        return 1.0 if z > 0.0 else 0.0
    if surrogate == "log":
        return sigmoid(z)
    if surrogate == "exp":
        return math.exp(min(z, 30.0))
    raise ValueError(f"no surrogate {surrogate!r}")


def maxfl_surrogate_round(
    params: Params,
    clients: Sequence[Client],
    cohort: Sequence[int],
    gradient_of: GradientOf,
    steps: int,
    lr: float,
    server_lr: float,
    rho: Sequence[float],
    epsilon: float,
    temperature: float = 1.0,
    surrogate: Surrogate = "sigmoid",
) -> Params:
    """Return w − η_g · Σ q_k Δ_k / (Σ q_k + ε), q_k of z = (F_k(w) − ρ_k) / T by the surrogate.

    Δ_k is after τ SGD steps. Σ q_k + ε = 0 leaves w as it was.
    """
    deltas = []
    q = []
    for k in members(clients, cohort):
        deltas.append(minus(params, sgd(params, k, gradient_of, steps, lr)))
        q.append(surrogate_weight(loss(params, *clients[k]) - rho[k], temperature, surrogate))
    return server_step(params, deltas, q, sum(q) + epsilon, server_lr)


# ----------------------------------------------------------------------------- 10. robust means


def present(updates: Floats, q: Floats) -> list[int]:
    """Return the rows of updates[m, d] that take part, those with q_i > 0, in order."""
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


# ----------------------------------------------------------------------------- 11. optimisers


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
