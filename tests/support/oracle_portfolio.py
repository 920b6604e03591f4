"""Plain-NumPy reference of portfolios: K global models, of which each client picks one.

In the manner of ``oracle``: one client and one model after another, float64 throughout. For
methods whose clients send Δ_k = w − w_k; ``portfolio_runs`` holds the engine to it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from support import oracle
from support.oracle import Client, Floats, Params, add_scaled
from support.oracle_methods import GradientOf, minus, scaled, sgd, zeros_like
from support.oracle_server import momentum, weighted_median

Cost: TypeAlias = Literal["loss", "accuracy"]
Tune: TypeAlias = Callable[[Params], Params]


# ----------------------------------------------------------------------------- what is chosen


class Tracking(NamedTuple):
    """How a temperature T = c·s follows the gaps (maxfl-auto): c, the quantile p, the gain γ."""

    multiple: float
    quantile: float
    gain: float


class Method(NamedTuple):
    """A method and its numbers.

    Attributes:
        weigh: Whether clients weigh alike (FedAvg, IFCA), by their training samples (HypCluster)
            or by the sigmoid of their gap (MaxFL).
        epsilon: ε, added to the sum of a model's weights.
        temperature: T, unless it is tracked.
        tracking: How T follows the gaps; None where it is fixed.
        patience: Participants per model after which one that nobody trains starts anew; 0: never.
        beta: Momentum of the server's steps; 0 for plain ones.
        cost: What requirements are about.
        finetune_steps: Steps that clients fine-tune the model that they picked by, before they
            weigh it.
        is_median: Whether a model's mean is the weighted median of each coordinate instead.
    """

    weigh: Literal["alike", "size", "appeal"] = "alike"
    epsilon: float = 0.0
    temperature: float = 1.0
    tracking: Tracking | None = None
    patience: int = 0
    beta: float = 0.0
    cost: Cost = "loss"
    finetune_steps: int = 0
    is_median: bool = False


class Portfolio(NamedTuple):
    """What the server has.

    Attributes:
        models: w_1 .. w_K.
        velocities: What the server's momentum keeps for each.
        idle: For each, participants since one last trained it.
        donor: The model that most participants of the last round trained whose gap was above 0.
        unmet_gap: Mean gap of those of them that trained the donor; ∞ without any.
        scale: s of a tracked temperature, of all models together; 0 before it is known.
    """

    models: list[Params]
    velocities: list[Params]
    idle: list[int]
    donor: int = 0
    unmet_gap: float = math.inf
    scale: float = 0.0


class Choice(NamedTuple):
    """What a client does.

    Attributes:
        picked: The model that it picks.
        gap: How far that is above the requirement.
        trains: The model that it trains.
        used: The picked model as the client uses it: fine-tuned, where clients fine-tune.
        used_gap: How far that is above the requirement, by which the client weighs.
    """

    picked: int
    gap: float
    trains: int
    used: Params
    used_gap: float


# ----------------------------------------------------------------------------- a round


def begin(models: Sequence[Params]) -> Portfolio:
    """Return the server before the first round."""
    return Portfolio(list(models), [zeros_like(w) for w in models], [0] * len(models))


def start_anew(portfolio: Portfolio, patience: int) -> tuple[Portfolio, int | None]:
    """Copy the donor over the one that has been idle longest, if long enough.

    Returns:
        The portfolio, and the model that started anew; None where none did.
    """
    longest = max(portfolio.idle)
    too_soon = longest < patience * len(portfolio.models)
    if patience == 0 or too_soon or portfolio.unmet_gap == math.inf:
        return portfolio, None
    vacant = portfolio.idle.index(longest)
    models, velocities = list(portfolio.models), list(portfolio.velocities)
    models[vacant] = models[portfolio.donor]
    velocities[vacant] = velocities[portfolio.donor]
    return portfolio._replace(models=models, velocities=velocities), vacant


def costs(params: Params, data: Client, about: Cost) -> tuple[float, float]:
    """Return what the requirement is about, less being better, and the loss."""
    loss = oracle.loss(params, *data)
    return (loss if about == "loss" else -oracle.accuracy(params, *data)), loss


def choose(
    portfolio: Portfolio, vacant: int | None, data: Client, rho: float, about: Cost, tune: Tune
) -> Choice:
    """Pick the model of least cost, of equal ones that of least loss, and say which is trained.

    rho is the bound of the cost: where that is an accuracy, the negated one. All of it is decided
    by the models as the server sends them.
    """
    measured = [costs(w, data, about) for w in portfolio.models]
    picked = measured.index(min(measured))
    gap = measured[picked][0] - rho
    trains = picked
    if vacant is not None and picked in (vacant, portfolio.donor):
        trains = vacant if gap >= portfolio.unmet_gap else portfolio.donor
    used = tune(portfolio.models[picked])
    return Choice(picked, gap, trains, used, costs(used, data, about)[0] - rho)


def temperature(method: Method, portfolio: Portfolio) -> float:
    """Return T of the round: fixed, or c·s; ∞ before s is known."""
    if method.tracking is None:
        return method.temperature
    return method.tracking.multiple * portfolio.scale if portfolio.scale else math.inf


def client_weight(method: Method, portfolio: Portfolio, samples: int, gap: float) -> float:
    """Return q_k of a client with so many training samples and a gap with the model it picked."""
    if method.weigh == "alike":
        return 1.0
    if method.weigh == "size":
        return float(samples)
    return oracle.weight(gap, temperature(method, portfolio))


def next_scale(tracking: Tracking | None, scale: float, gaps: Sequence[float]) -> float:
    """Return s after a round with these gaps: their mean |gap| at first, then s exp(γ(p − share)).

    share is that of the gaps below s in size.
    """
    if tracking is None:
        return scale
    sizes = [abs(gap) for gap in gaps]
    if not scale:
        return sum(sizes) / len(sizes)
    share = sum(size < scale for size in sizes) / len(sizes)
    return scale * math.exp(tracking.gain * (tracking.quantile - share))


def combined(method: Method, updates: Sequence[Params], weights: Sequence[float]) -> Params:
    """Return Σ q_k u_k / (Σ q_k + ε), or the weighted median of each coordinate."""
    mass = sum(weights) + method.epsilon
    total = zeros_like(updates[0])
    for update, q in zip(updates, weights, strict=True):
        total = add_scaled(total, update, q / mass)
    if not method.is_median:
        return total
    flat = np.stack([flattened(update) for update in updates])
    return unflattened(weighted_median(flat, np.array(weights)), total)


def flattened(params: Params) -> Floats:
    """Return all numbers of params in a row."""
    return np.concatenate([part.ravel() for layer in params for part in layer])


def unflattened(row: Floats, like: Params) -> Params:
    """Return a row of numbers in the shapes of params."""
    result: Params = []
    for weights, bias in like:
        both, row = row[: weights.size + bias.size], row[weights.size + bias.size :]
        result.append((both[: weights.size].reshape(weights.shape), both[weights.size :]))
    return result


def train(
    method: Method,
    portfolio: Portfolio,
    clients: Sequence[Client],
    choices: Sequence[Choice],
    cohort: Sequence[int],
    gradient_of: GradientOf,
    steps: int,
    lr: float,
    server_lr: float,
    sent: Mapping[int, float],
) -> Portfolio:
    """Return the server after the participants of a round have trained as they chose.

    For each model j that somebody with a weight trained: w_j ← w_j − η_g m_j with the momentum
    m_j ← β m_j + Σ q_k u_k / (Σ q_k + ε), over those that trained it. Others stay. What a client
    sends is u_k = w_j − w_k, of a Byzantine one a multiple of it.
    """
    if not cohort:
        return portfolio
    models, velocities, idle = [], [], []
    for j, w in enumerate(portfolio.models):
        its_clients = [k for k in cohort if choices[k].trains == j]
        updates = [
            scaled(minus(w, sgd(w, k, gradient_of, steps, lr)), sent.get(k, 1.0))
            for k in its_clients
        ]
        weights = [
            client_weight(method, portfolio, len(clients[k][1]), choices[k].used_gap)
            for k in its_clients
        ]
        velocity = portfolio.velocities[j]
        if sum(weights) > 0.0:
            mean = combined(method, updates, weights)
            w, velocity = momentum(w, mean, velocity, server_lr, method.beta)
        models.append(w)
        velocities.append(velocity)
        idle.append(0 if its_clients else portfolio.idle[j] + len(cohort))
    gaps = [
        [choices[k].gap for k in cohort if choices[k].trains == j and choices[k].gap > 0.0]
        for j in range(len(models))
    ]
    unmet = max(gaps, key=len)
    return Portfolio(
        models,
        velocities,
        idle,
        donor=gaps.index(unmet),
        unmet_gap=sum(unmet) / len(unmet) if unmet else math.inf,
        scale=next_scale(method.tracking, portfolio.scale, [choices[k].used_gap for k in cohort]),
    )
