"""Byzantine clients: seen clients that lie, to gain weight or to spoil the model.

The paper's (section 4) report large losses and add Gaussian noise to their updates. Here each of
these can be set, alone or together:

    inflation    reported loss = F_k(w) + inflation, not below 0
    noise        update + N(0, noise²)
    scale        update · scale; −1 is the sign flip, 10 a scaled update
    flip_labels  trains on reversed labels
    collude      all liars of a round add the same noise, so that it does not average out

They never opt out, and count in no measure of how clients fare.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.core.algorithm import Pytree, model_part, with_model_part
from maxfl.core.prng import Purpose, key
from maxfl.utils.errors import check_number


class Attack(NamedTuple):
    """Numbers of an attack.

    Attributes:
        share: Share of the seen clients that lie.
        inflation: What they add to the loss that they report.
        noise: Deviation of what they add to their updates.
        scale: By what they multiply their updates.
    """

    share: Any = 0.0
    inflation: Any = 0.0
    noise: Any = 0.0
    scale: Any = 1.0


class Adversary(NamedTuple):
    """What shapes the attack, and its numbers.

    Attributes:
        active: Whether anybody lies at all.
        flip_labels: Whether liars train on reversed labels.
        collude: Whether liars add the same noise.
        attack: The numbers.
    """

    active: bool = False
    flip_labels: bool = False
    collude: bool = False
    attack: Attack = Attack()


def nobody() -> Adversary:
    """All clients are honest."""
    return Adversary()


def byzantine(
    share: ArrayLike = 0.1,
    *,
    inflation: ArrayLike = 0.0,
    noise: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    flip_labels: bool = False,
    collude: bool = False,
) -> Adversary:
    """A share of the seen clients lies, as the other arguments say."""
    check_number("adversary.share", share, least=0, below=1)
    check_number("adversary.inflation", inflation)
    check_number("adversary.noise", noise, least=0)
    check_number("adversary.scale", scale)
    return Adversary(True, flip_labels, collude, Attack(share, inflation, noise, scale))


def liars(seed: int | Array, share: float | Array, seen: int, clients: int) -> Array:
    """Who lies, bool[K]: the same clients for every method with one seed."""
    scores = jax.random.uniform(key(seed, Purpose.BYZANTINE), (seen,))
    rank = jnp.argsort(jnp.argsort(scores))
    return jnp.zeros(clients, bool).at[:seen].set(rank < jnp.round(share * seen))


def corrupt(attack: Attack, draws: Array, update: Pytree) -> Pytree:
    """What a liar sends instead of its update: another model's part."""
    leaves, structure = jax.tree.flatten(model_part(update))
    keys = jax.random.split(draws, len(leaves))
    sent = [
        attack.scale * leaf + attack.noise * jax.random.normal(k, leaf.shape)
        for k, leaf in zip(keys, leaves, strict=True)
    ]
    return with_model_part(update, jax.tree.unflatten(structure, sent))
