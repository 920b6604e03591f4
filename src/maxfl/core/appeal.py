"""The heart of the method: from a client's loss and requirement to its weight and its choice.

Cho et al., "Maximizing Global Model Appeal in Federated Learning", TMLR 2024. With the loss
F_k(w) of client k and its requirement ρ_k,

    gap        g_k = F_k(w) − ρ_k
    objective  F̃(w) = 1/M Σ_k σ(g_k / T)
    weight     q_k = s(1 − s),  s = σ(g_k / T)          (eq. 4; in (0, ¼], largest at g_k = 0)
    appeal     1/M Σ_k 1{F_k(w) < ρ_k}                  (definition 1)

T is a temperature; T = 1 is the paper. ∇F̃ = 1/(M·T) Σ_k q_k ∇F_k; the factor 1/T is left to the
server's learning rate, since the update is divided by Σ q_k anyway.

Every function is pure, works elementwise on arrays of any shape, and takes NumPy and JAX arrays
alike: the simulation traces them, a Flower client calls them on plain floats.
"""

from typing import Any, TypeVar

import numpy as np

Array = TypeVar("Array", bound=Any)
"""A NumPy or JAX array, or a float; what goes in comes out."""
TINY = 1e-10
"""Added to a loss, so that a power of it exists when it is 0."""
TIE = 2e-6
"""A gap this small, as a share of the requirement, is none: ``criterion`` adds half of it."""


def namespace(x: Any) -> Any:
    """Return the module (numpy or jax.numpy) that ``x`` computes with."""
    return x.__array_namespace__() if hasattr(x, "__array_namespace__") else np


def sigmoid(x: Array) -> Array:
    """Return σ(x), without overflow at any x; its derivative is right to float precision."""
    return 0.5 * (1.0 + namespace(x).tanh(0.5 * x))


def objective(loss: Array, requirement: Array, temperature: float | Array = 1.0) -> Array:
    """Return the relaxed dissatisfaction σ((F_k − ρ_k)/T); its mean is F̃(w), eq. 3."""
    return sigmoid((loss - requirement) / temperature)


def weight(loss: Array, requirement: Array, temperature: float | Array = 1.0) -> Array:
    """Return the aggregation weight q_k = s(1 − s) of each client, eq. 4.

    With e = exp(−|g|/T), s(1 − s) = e/(1 + e)². This form keeps its relative precision far from
    the requirement, where 1 − s would round to zero, and never overflows.
    """
    gap = (loss - requirement) / temperature
    xp = namespace(gap)
    e = xp.exp(-xp.abs(gap))
    return e / (1.0 + e) ** 2


def fair_weight(loss: Array, q: Any) -> Array:
    """Return F_k^q, the weight of q-FFL: the larger a loss, the more it counts."""
    return (loss + TINY) ** q


def nearness(gap: Array, requirement: Array, scale: Any, quantile: Any) -> Array:
    """Return what a client adds to the count of those within ``scale`` of their requirement.

    1 if it is one of them, else 0; ``quantile``, the share that is aimed at, if it is on its
    requirement to the last digit: metrics are counts of few samples, and tie often.
    """
    tie = abs(gap) <= TIE * namespace(requirement).maximum(abs(requirement), TIE)
    return namespace(gap).where(tie, quantile, 1.0 * (abs(gap) < scale))


def satisfied(loss: Array, requirement: Array) -> Array:
    """Return whether each client's requirement is met: a strictly smaller loss, definition 1."""
    return loss < requirement


def preferred(satisfied: Array, global_value: Array, solo_value: Array) -> Array:
    """Return the value of the model that each client uses: the global one if satisfied."""
    return namespace(satisfied).where(satisfied, global_value, solo_value)
