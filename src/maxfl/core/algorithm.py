"""The contract of a method: what it changes of FedAvg, and nothing else.

A round, for every method (the engine does all of it but the named functions):

    sample a cohort; each client k of it
        q_k      = weight(hparams, server, client)
        u_k, s_k = client_update(hparams, server, s_k, client, task)   train from the server's model
    total        = Σ_k q_k u_k,  Σ_k q_k
    d, state     = server_update(hparams, server, total, cohort)
    w           ← the server optimizer's step along d; plain: w − η_g d

Of the updates a server sees sums: they stream over chunks of clients and devices without storing
one update per client, and are what secure aggregation reveals in a real federation. What else it
may look at is in ``Cohort``: AFL and MW-Fed read the clients' losses. Robust aggregators, which
come between the clients and the sums, see every update.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.local_optimizers import LocalOptimizer
from maxfl.core.model import Params, Variables
from maxfl.utils.display import Rows, html_table, numbers, one_line

Pytree = Any


class Gradient(Protocol):
    """``scale`` times the gradient of the loss on minibatch number ``draw``."""

    def __call__(self, params: Params, draw: Any, scale: Any = 1.0, /) -> Params:  # noqa: D102
        ...


@runtime_checkable
class Descent(Protocol):
    """A gradient that knows how to take several plain steps at once."""

    def descend(self, params: Params, steps: int, learning_rate: Array, /) -> Params | None:
        """Take τ steps w ← w − η_l g(w, r), or return None where one by one is as good."""


class Client(NamedTuple):
    """What one client knows in a round.

    Attributes:
        client_id: Its index in the federation, int.
        size: Number of its training samples n_k, int.
        loss: F_k(w), mean loss of the server's model over the data that the client judges by: by
            default samples that it does not train on.
        finetuned_loss: The same after fine-tuning, where clients fine-tune; else F_k(w).
        requirement: ρ_k, what ``cost`` must lie below: the loss that the model must beat.
        metric_cost: The metric that the requirement is about, negated where more of it is better;
            None where it is about the loss.
        finetuned_metric_cost: The same after fine-tuning.
    """

    client_id: Array
    size: Array
    loss: Array
    finetuned_loss: Array
    requirement: Array
    metric_cost: Any = None
    finetuned_metric_cost: Any = None

    @property
    def cost(self) -> Array:
        """What the requirement is about, less being better: F_k(w), or a metric."""
        return self.loss if self.metric_cost is None else self.metric_cost

    @property
    def finetuned_cost(self) -> Array:
        """The same after fine-tuning, where clients fine-tune."""
        finetuned = self.finetuned_metric_cost
        return self.finetuned_loss if finetuned is None else finetuned


class LocalTask(NamedTuple):
    """What a client can do with its data in a round, as its method sees it.

    Attributes:
        gradient: ``gradient(params, draw, scale=1) -> grads``: scale times the gradient of the
            loss on its minibatch number ``draw``. Equal numbers give equal minibatches, whatever
            the method.
        steps: τ, the number of local steps; a method may take fewer.
        learning_rate: η_l of the round.
        optimizer: What makes steps of gradients: hand it to ``descend``, or say ``needs_sgd``.
    """

    gradient: Gradient
    steps: Any
    learning_rate: Array
    optimizer: LocalOptimizer = LocalOptimizer()


class Server(NamedTuple):
    """The global model, and what the server of a method keeps beside it."""

    params: Params
    state: Pytree


class Cohort(NamedTuple):
    """The m clients sampled in a round, each field with a leading axis m.

    Attributes:
        client_id: Their indices, int[m]; those that participated are distinct.
        participated: Whether each trained and replied, bool[m]. Others have weight 0.
        loss: F_k(w) as reported, float[m].
        requirement: ρ_k, what ``cost`` must lie below, float[m].
        weight: q_k as reported, float[m].
        metric_cost: The metric that requirements are about, as reported, negated where more of it
            is better, float[m]; None where they are about the loss.
        finetuned_cost: What requirements are about, of the fine-tuned model, float[m]; None where
            clients do not fine-tune.
    """

    client_id: Array
    participated: Array
    loss: Array
    requirement: Array
    weight: Array
    metric_cost: Any = None
    finetuned_cost: Any = None

    @property
    def cost(self) -> Array:
        """What requirements are about, less being better: F_k(w), or a metric, float[m]."""
        return self.loss if self.metric_cost is None else self.metric_cost

    @property
    def gap(self) -> Array:
        """Cost − ρ_k, of the fine-tuned model where clients fine-tune, float[m]."""
        cost = self.cost if self.finetuned_cost is None else self.finetuned_cost
        return cost - self.requirement


class WeightedSum(NamedTuple):
    """Sums over the participating clients: Σ q_k u_k (shaped like one update) and Σ q_k."""

    update: Pytree
    weight: Array


class CompositeUpdate(NamedTuple):
    """An update with more in it than w − w_k; attacks and aggregators look at the model's part."""

    model: Params
    more: Pytree


class Algorithm(NamedTuple):
    """A method. Build it by ``fedavg.BASE._replace(...)`` of what differs.

    Attributes:
        name: As in the registry and in tables.
        hparams: Its hyper-parameters, a NamedTuple of scalars, or of arrays [configurations] in a
            sweep.
        init_server: ``init_server(params, clients) -> state``: what the server keeps beside the
            model.
        init_client: ``init_client(params) -> client_state``: what a client keeps between rounds,
            when it participates for the first time and receives the model ``params``.
        weight: ``weight(hparams, server, client) -> q``, not negative.
        client_update: ``client_update(hparams, server, client_state, client, task) -> (update,
            client_state)``.
        server_update: ``server_update(hparams, server, total, cohort) -> (direction, state)``.
        personalize: ``personalize(hparams, server, client_state, client, task) -> params``: the
            model that a client uses instead of the global one; None where that is the global one.
        needs_sgd: Whether its definition takes local steps to be plain SGD, so that another local
            optimizer is refused.
        never_starts_anew: Whether its definition leaves a model of a portfolio that nobody picks
            as it is.
    """

    name: str
    hparams: Pytree
    init_server: Callable[[Params, int], Pytree]
    init_client: Callable[[Params], Pytree]
    weight: Callable[[Pytree, Server, Client], Array]
    client_update: Callable[[Pytree, Server, Pytree, Client, LocalTask], tuple[Pytree, Pytree]]
    server_update: Callable[[Pytree, Server, WeightedSum, Cohort], tuple[Params, Pytree]]
    personalize: Callable[[Pytree, Server, Pytree, Client, LocalTask], Params] | None = None
    needs_sgd: bool = False
    never_starts_anew: bool = False

    def __repr__(self) -> str:
        """Return the method with its numbers, as ``maxfl(temperature=1.0, epsilon=0.001)``."""
        return one_line(self.name, lambda: ", ".join(f"{n}={v}" for n, v in self._chosen()))

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return html_table(self.name, self._chosen)

    def _chosen(self) -> Rows:
        fields = self.hparams._asdict() if hasattr(self.hparams, "_asdict") else {}
        return [(name, numbers(value)) for name, value in fields.items()]


def descend(
    params: Params,
    gradient: Gradient,
    steps: int | Array,
    learning_rate: Array,
    optimizer: LocalOptimizer | None = None,
) -> Params:
    """Take local steps: w ← w − η_l g(w, r) for r = 0 .. τ − 1, or what an optimizer makes of g."""
    if optimizer is not None and not optimizer.is_plain:
        return _optimize(params, gradient, steps, learning_rate, optimizer)
    if isinstance(gradient, Descent) and isinstance(steps, int):
        found = gradient.descend(params, steps, learning_rate)
        if found is not None:
            return found

    def step(r: Array, w: Params) -> Params:
        if rate_in_loss():
            return advance(w, gradient(w, r, -learning_rate), 1.0)
        return advance(w, gradient(w, r, 1.0), -learning_rate)

    return jax.lax.fori_loop(0, steps, step, params)


def _optimize(
    params: Params,
    gradient: Gradient,
    steps: int | Array,
    learning_rate: Array,
    optimizer: LocalOptimizer,
) -> Params:
    """Take local steps of an optimizer that has moments, decays weights or clips."""
    transformation = optimizer.transformation()

    def step(r: Array, carry: tuple[Params, Pytree]) -> tuple[Params, Pytree]:
        w, moments = carry
        g = gradient(w, r, 1.0)
        direction, moments = transformation.update(trained(g), moments, trained(w))
        return advance(w, with_trained(g, direction), -learning_rate), moments

    begin = params, transformation.init(trained(params))
    return jax.lax.fori_loop(0, steps, step, begin)[0]


def rate_in_loss() -> bool:
    """Return whether η_l is a factor of the loss rather than of the gradient.

    On a GPU, the product that makes the gradient of a weight can then add it to the weight at once,
    in four fifths of the time; on a CPU it takes a few per cent longer.
    """
    return jax.default_backend() != "cpu"


def model_part(update: Pytree) -> Params:
    """Return what an update says about the model."""
    return update.model if isinstance(update, CompositeUpdate) else update


def with_model_part(update: Pytree, model: Params) -> Pytree:
    """Return the update with another model's part."""
    return update._replace(model=model) if isinstance(update, CompositeUpdate) else model


def pulled(gradient: Gradient, centre: Params, strength: float | Array) -> Gradient:
    """Return the gradient with a pull towards a centre: g(w) + strength · (w − centre)."""

    def both(w: Params, r: Any, scale: Any = 1.0) -> Params:
        return move(gradient(w, r, scale), difference(w, centre), scale * strength)

    return both


def trained(params: Params) -> Params:
    """Return what gradients train of a model, a gradient or an update: all but its state."""
    return params.params if isinstance(params, Variables) else params


def with_trained(params: Params, part: Params) -> Params:
    """Return the same with another trained part."""
    return params._replace(params=part) if isinstance(params, Variables) else part


def move(params: Params, direction: Params, distance: float | Array) -> Params:
    """Return params + distance · direction, leaf by leaf; a model's state stays as it is."""
    moved = jax.tree.map(lambda w, d: w + distance * d, trained(params), trained(direction))
    return with_trained(params, moved)


def advance(params: Params, gradient: Params, distance: float | Array) -> Params:
    """Take a step along a gradient, and with it the state that computing the gradient brought."""
    moved = move(params, gradient, distance)
    if not isinstance(params, Variables):
        return moved
    return moved._replace(state=difference(params.state, gradient.state))


def scale(direction: Params, factor: Any) -> Params:
    """Return factor · direction, leaf by leaf; a model's state is not a direction, and stays."""
    return with_trained(direction, jax.tree.map(lambda d: factor * d, trained(direction)))


def difference(before: Params, after: Params) -> Params:
    """Return Δ = w − w_k, leaf by leaf."""
    return jax.tree.map(lambda w, v: w - v, before, after)


def average(total: WeightedSum, epsilon: float | Array = 0.0) -> Pytree:
    """Return Σ q_k u_k / (Σ q_k + ε); zero, so that the model stays, without any weight.

    Works on NumPy and JAX arrays alike.
    """
    scale = average_scale(total.weight, epsilon)
    return jax.tree.map(lambda u: u * scale, total.update)


def average_scale(weight: Array, epsilon: float | Array = 0.0) -> Array:
    """Return 1 / (Σ q_k + ε), 0 without any weight: what a Flower server multiplies its sums by."""
    denominator = weight + epsilon
    given = denominator > 0
    return jnp.where(given, 1.0 / jnp.where(given, denominator, 1.0), 0.0)
