"""Plain-NumPy reference of FedAvg and MaxFL, written from the paper alone.

Cho et al., "Maximizing Global Model Appeal in Federated Learning", TMLR 2024, eqs. 1 to 6 and
Algorithm 1, with the readings of `docs/paper.md`: q = σ(1 − σ) and Δ = w − w_k. Slow and obvious
on purpose: one client after another, one step after another, float64 throughout, no randomness.
Arguments are NumPy arrays (convert JAX arrays first) and are never written to.
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Params: TypeAlias = list[tuple[Floats, Floats]]  # (weight[in, out], bias[out]) for each layer
Client: TypeAlias = tuple[Floats, Ints]  # training data x[n, d], y[n]


# ----------------------------------------------------------------------------- the model


def activations(params: Params, x: Floats) -> list[Floats]:
    """Return the input of each layer and the logits: h_0 = x, h_{l+1} = relu(h_l W_l + b_l).

    The last layer has no ReLU. x is [n, d]; entry l of the result is [n, width of layer l].
    """
    outputs = [np.asarray(x, dtype=np.float64)]
    for layer, (weights, bias) in enumerate(params):
        z = outputs[-1] @ weights + bias
        outputs.append(z if layer == len(params) - 1 else np.maximum(z, 0.0))
    return outputs


def forward(params: Params, x: Floats) -> Floats:
    """Return the logits [n, classes] of x[n, d]."""
    return activations(params, x)[-1]


def log_softmax(logits: Floats) -> Floats:
    """Return z − log Σ exp z along the classes, for z[n, classes], shifted by the row's largest."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return log_p


def loss(params: Params, x: Floats, y: Ints) -> float:
    """Return the mean cross-entropy F = −1/n Σ_i log softmax(z_i)[y_i] of x[n, d], y[n]."""
    log_p = log_softmax(forward(params, x))
    return -float(np.mean(log_p[np.arange(len(y)), y]))


def gradient(params: Params, x: Floats, y: Ints) -> Params:
    """Return ∇F by back-propagation, in the shapes of params, for x[n, d], y[n].

    At the logits e = (softmax(z) − onehot(y)) / n; then for each layer from the last
    ∂W = hᵀe, ∂b = Σ_i e_i, and e ← (e Wᵀ) · [h > 0] for the layer below.
    """
    outputs = activations(params, x)
    error = np.exp(log_softmax(outputs[-1]))
    error[np.arange(len(y)), y] -= 1.0
    error /= len(y)
    gradients: Params = []
    for (weights, _), inputs in zip(reversed(params), reversed(outputs[:-1]), strict=True):
        gradients.append((inputs.T @ error, error.sum(axis=0)))
        error = (error @ weights.T) * (inputs > 0.0)
    return gradients[::-1]


def accuracy(params: Params, x: Floats, y: Ints) -> float:
    """Return the share of x[n, d] whose largest logit is at y[n]."""
    return float(np.mean(forward(params, x).argmax(axis=1) == y))


# ----------------------------------------------------------------------------- the client


def add_scaled(params: Params, direction: Params, scale: float) -> Params:
    """Return params + scale · direction, layer by layer."""
    return [
        (weights + scale * d_weights, bias + scale * d_bias)
        for (weights, bias), (d_weights, d_bias) in zip(params, direction, strict=True)
    ]


def local_sgd(params: Params, x: Floats, y: Ints, batches: Ints, lr: float) -> Params:
    """Return w_k^τ after w ← w − η_l ∇F(w; x[batch], y[batch]) for each row of batches[τ, b]."""
    for batch in batches:
        params = add_scaled(params, gradient(params, x[batch], y[batch]), -lr)
    return params


def sigmoid(z: float) -> float:
    """Return 1 / (1 + exp(−z)) without overflow."""
    return 1.0 / (1.0 + math.exp(-z)) if z >= 0 else math.exp(z) / (1.0 + math.exp(z))


def weight(gap: float, temperature: float = 1.0) -> float:
    """Return q = s(1 − s), s = σ(gap / T), in [0, ¼]; 1 − s is σ(−gap / T), free of cancellation.

    T scales only the gap: for T ≠ 1 the derivative of s with respect to the gap is q / T.
    """
    return sigmoid(gap / temperature) * sigmoid(-gap / temperature)


# ----------------------------------------------------------------------------- the federation


def objective(
    params: Params, clients: Sequence[Client], rho: Sequence[float], temperature: float = 1.0
) -> float:
    """Return F̃(w) = 1/M Σ_k σ((F_k(w) − ρ_k) / T) over all M clients."""
    total = 0.0
    for (x, y), threshold in zip(clients, rho, strict=True):
        total += sigmoid((loss(params, x, y) - threshold) / temperature)
    return total / len(clients)


def client_deltas(
    params: Params,
    clients: Sequence[Client],
    cohort: Sequence[int],
    batches: Sequence[Ints],
    lr: float,
) -> list[Params]:
    """Return Δ_k = w − w_k^τ for each client k of the cohort; batches[i][τ, b] is cohort[i]'s."""
    deltas = []
    for k, client_batches in zip(cohort, batches, strict=True):
        x, y = clients[k]
        tuned = local_sgd(params, x, y, client_batches, lr)
        deltas.append(add_scaled(params, tuned, -1.0))
    return deltas


def server_step(
    params: Params,
    deltas: Sequence[Params],
    weights: Sequence[float],
    normaliser: float,
    server_lr: float,
) -> Params:
    """Return w − η_g · Σ_k weights_k Δ_k / normaliser; w itself when the normaliser is zero."""
    if normaliser == 0.0:
        return params
    updated = params
    for delta, share in zip(deltas, weights, strict=True):
        updated = add_scaled(updated, delta, -server_lr * (share / normaliser))
    return updated


def fedavg_round(
    params: Params,
    clients: Sequence[Client],
    cohort: Sequence[int],
    batches: Sequence[Ints],
    lr: float,
    server_lr: float,
) -> Params:
    """Return w − η_g · 1/m Σ_k Δ_k over the m clients of the cohort; w when it is empty."""
    deltas = client_deltas(params, clients, cohort, batches, lr)
    return server_step(params, deltas, [1.0] * len(cohort), float(len(cohort)), server_lr)


def maxfl_round(
    params: Params,
    clients: Sequence[Client],
    rho: Sequence[float],
    cohort: Sequence[int],
    batches: Sequence[Ints],
    lr: float,
    server_lr: float,
    epsilon: float,
    temperature: float = 1.0,
    judged: Sequence[Client] | None = None,
) -> Params:
    """Return w − η_g · Σ q_k Δ_k / (Σ q_k + ε) over the cohort; rho[M] is over all clients.

    q_k comes from F_k(w) on all data that client k judges by, at the incoming model: its training
    data, unless others are given.
    An empty cohort leaves w as it was, and so does Σ q_k + ε = 0.
    """
    deltas = client_deltas(params, clients, cohort, batches, lr)
    judged = clients if judged is None else judged
    q = [weight(loss(params, *judged[k]) - rho[k], temperature) for k in cohort]
    # An empty cohort needs no case of its own: there is no Δ to add, whatever ε is.
    return server_step(params, deltas, q, sum(q) + epsilon, server_lr)


# ----------------------------------------------------------------------------- the appeal


def willing(params: Params, clients: Sequence[Client], rho: Sequence[float]) -> list[bool]:
    """Return for each of the M clients whether F_k(w) < ρ_k on its data."""
    return [loss(params, x, y) < threshold for (x, y), threshold in zip(clients, rho, strict=True)]


def gm_appeal(global_losses: Sequence[float], thresholds: Sequence[float]) -> float:
    """Return 1/M Σ_k [f_k(w) < ρ_k], the share of the M clients the model strictly satisfies."""
    satisfied = 0
    for global_loss, threshold in zip(global_losses, thresholds, strict=True):
        satisfied += int(global_loss < threshold)
    return satisfied / len(thresholds)


def preferred_accuracy(
    global_acc: Sequence[float], solo_acc: Sequence[float], satisfied: Sequence[bool]
) -> float:
    """Return the mean over clients of the global model's accuracy if satisfied, else the solo's."""
    total = 0.0
    for of_global, of_solo, stays in zip(global_acc, solo_acc, satisfied, strict=True):
        total += of_global if stays else of_solo
    return total / len(satisfied)
