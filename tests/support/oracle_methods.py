"""Plain-NumPy reference of other federated methods.

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
from typing import Literal, TypeAlias

import numpy as np

from support.oracle import Client, Floats, Params, add_scaled, loss, server_step, sigmoid, weight

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


# ----------------------------------------------------------------------------- FedProx


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


# ----------------------------------------------------------------------------- SCAFFOLD


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


# ----------------------------------------------------------------------------- q-FFL


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


# ----------------------------------------------------------------------------- AFL


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


# ----------------------------------------------------------------------------- MW-Fed


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


# ----------------------------------------------------------------------------- surrogates


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
