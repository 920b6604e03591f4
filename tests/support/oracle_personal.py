"""Plain-NumPy reference of methods that give clients a model of their own.

In the manner, and with the words, of ``oracle_methods``.
"""

from collections.abc import Mapping, Sequence

from support.oracle import Client, Params, add_scaled
from support.oracle_methods import GradientOf, mean_step, members, minus, scaled, sgd

# ----------------------------------------------------------------------------- Per-FedAvg


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


# ----------------------------------------------------------------------------- pFedMe


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


# ----------------------------------------------------------------------------- Ditto


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
