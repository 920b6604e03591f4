"""A portfolio: several global models, of which each client uses the one that suits it.

Where clients contradict each other, no single model satisfies them all. The server has K models; a
client measures all of them on the data that it judges by and picks the best, as in IFCA (Ghosh et
al., NeurIPS 2020) and HypCluster (Mansour et al., 2020). With the update u_k of the client for the
model j_k that it picked,

    j_k = argmin_j F_k(w_j)                                  (of costs, where a metric decides)
    w_j ← the method's step of Σ q_k u_k and Σ q_k over the clients with j_k = j

and MaxFL's q_k is of the gap F_k(w_{j_k}) − ρ_k. What a method keeps beside the model, such as a
temperature, is one for all models: it follows the gaps of all clients, each with its own pick.

Every model starts from a draw of its own. One that none of the last ``patience``·K clients picked
starts anew where it may serve somebody better: as a copy of the donor, the model that most of the
clients that were not satisfied had in the last round. Of the clients that pick either, those train
the copy whose gap is at least the mean gap of these, and so the two part.
Without own starts three models of MaxFL auto satisfy fewer clients of five clusters, and without
starting anew five models do (``benchmarks/portfolio_starts.py``, docs/portfolio.md).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from maxfl.core.algorithm import Algorithm, WeightedSum
from maxfl.utils.errors import check_number

PATIENCE = 20
"""A model that a share s of all clients picks has none of patience·K of them with a probability of
(1 − s)^(patience·K): e⁻²⁰ if s is a K-th, and 5·10⁻⁵ if it is half of that."""


class PortfolioHParams(NamedTuple):
    """Hyper-parameters of a portfolio.

    Attributes:
        models: K.
        patience: Clients per model that pick others until a model starts anew; 0 for never.
    """

    models: Any = 1
    patience: Any = PATIENCE


class Portfolio(NamedTuple):
    """How many global models there are; ``portfolio`` makes it."""

    hparams: PortfolioHParams = PortfolioHParams()

    def hparams_for(self, algorithm: Algorithm) -> PortfolioHParams:
        """Return the hyper-parameters by the rules of a method: some never start a model anew."""
        if not algorithm.never_starts_anew:
            return self.hparams
        return self.hparams._replace(patience=np.zeros_like(self.hparams.patience))

    @property
    def most_models(self) -> int:
        """The largest K of a sweep."""
        return int(np.max(self.hparams.models))


class PortfolioState(NamedTuple):
    """What the server knows of a portfolio before a round.

    Attributes:
        idle: Clients that trained others since somebody trained each model, int32[models].
        donor: The model that most clients trained that were not satisfied in the last round, int32.
        unmet_gap: Mean gap of those clients; ∞ where all were satisfied.
    """

    idle: Array
    donor: Array
    unmet_gap: Array


class Vacancy(NamedTuple):
    """The model that starts anew in a round, int32, and whether one does."""

    model: Array
    is_open: Array


def portfolio(models: ArrayLike = 2, patience: ArrayLike = PATIENCE) -> Portfolio:
    """Train several global models, of which each client picks the one that suits it.

    Args:
        models: K, how many.
        patience: A model that none of the last patience·K clients picked starts anew; 0 for never.
    """
    check_number("portfolio.models", models, least=1, whole=True)
    check_number("portfolio.patience", patience, least=0, whole=True)
    return Portfolio(PortfolioHParams(models, patience))


def init_portfolio(models: int) -> PortfolioState:
    """Return what is known before the first round."""
    return PortfolioState(jnp.zeros(models, jnp.int32), jnp.int32(0), jnp.float32(jnp.inf))


def best_model(models: Any, cost: Array, loss: Array) -> Array:
    """Return the model that each client picks: the least cost, of equal costs the least loss.

    Args:
        models: K; of a sweep's models, those beyond K do not count.
        cost: Of each model, float[models, ...]; NaN is the worst.
        loss: Likewise; the same array where losses decide.

    Returns:
        int32[...].
    """
    number = jnp.arange(len(cost)).reshape(-1, *[1] * (cost.ndim - 1))
    exists = number < models
    costs = jnp.where(exists & ~jnp.isnan(cost), cost, jnp.inf)
    losses = jnp.where(jnp.isnan(loss), jnp.inf, loss)
    tied = exists & (costs <= costs.min(0))
    first_of_least = tied & (losses <= jnp.where(tied, losses, jnp.inf).min(0))
    return jnp.argmax(first_of_least, axis=0).astype(jnp.int32)


def vacancy(hparams: PortfolioHParams, state: PortfolioState) -> Vacancy:
    """Return the model that was idle for longest, and whether it starts anew.

    It does not while all clients are satisfied: none of them would train it.
    """
    idle = jnp.where(jnp.arange(len(state.idle)) < hparams.models, state.idle, -1)
    model = jnp.argmax(idle).astype(jnp.int32)
    long_enough = (hparams.patience > 0) & (idle[model] >= hparams.patience * hparams.models)
    return Vacancy(model, long_enough & jnp.isfinite(state.unmet_gap))


def start_anew(vacant: Vacancy, state: PortfolioState, models: Any) -> Any:
    """Return the models, leading axis [models], with a vacant one replaced by the donor."""

    def replaced(a: Array) -> Array:
        return jnp.where(vacant.is_open, a.at[vacant.model].set(a[state.donor]), a)

    return jax.tree.map(replaced, models)


def model_to_train(vacant: Vacancy, state: PortfolioState, picked: Array, gap: Array) -> Array:
    """Return the model that a client trains: the one that it picked, or the vacant one.

    A vacant model is a twin of the donor, so that whoever picked either picked both.
    """
    either = vacant.is_open & ((picked == state.donor) | (picked == vacant.model))
    twin = jnp.where(gap >= state.unmet_gap, vacant.model, state.donor)
    return jnp.where(either, twin, picked).astype(jnp.int32)


def next_state(
    state: PortfolioState, clients: Array, unmet: Array, unmet_gaps: Array
) -> PortfolioState:
    """Return what is known after a round; the state stays where nobody participated.

    Args:
        state: Of the round.
        clients: That trained each model, a count [models].
        unmet: Those of them that were not satisfied, a count [models].
        unmet_gaps: The sum of their gaps, float[models].
    """
    donor = jnp.argmax(unmet).astype(jnp.int32)
    mean = jnp.where(unmet[donor] > 0, unmet_gaps[donor] / jnp.maximum(unmet[donor], 1), jnp.inf)
    idle = jnp.where(clients > 0, 0, state.idle + clients.sum()).astype(jnp.int32)
    renewed = PortfolioState(idle, donor, mean.astype(jnp.float32))
    return jax.tree.map(lambda new, old: jnp.where(clients.sum() > 0, new, old), renewed, state)


def select(models: Any, model: Array) -> Any:
    """Return one model of leaves with a leading axis [models]."""
    return jax.tree.map(lambda a: a[model], models)


def add_per_model(total: WeightedSum, replies: WeightedSum, model: Array) -> WeightedSum:
    """Add one client's sums, or those of several with a leading axis, to those of their models."""
    if model.ndim == 0:
        return jax.tree.map(lambda sums, value: sums.at[model].add(value), total, replies)
    return jax.tree.map(
        lambda sums, values: sums + sum_per_model(sums, values, model), total, replies
    )


def sum_per_model(like: Array, values: Array, model: Array) -> Array:
    """Sum values [m, ...] by the models of their clients, int[m], to [models, ...].

    Masked sums, whose order is fixed: an accelerator would scatter in any order, and round so.
    """

    def of_model(number: Array) -> Array:
        mine = (model == number).reshape(-1, *[1] * (values.ndim - 1))
        return jnp.where(mine, values, 0).sum(0, dtype=like.dtype)

    return jax.vmap(of_model)(jnp.arange(len(like)))
