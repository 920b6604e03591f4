"""Byzantine clients: seen clients that send what is not true, to gain weight or to spoil the model.

The paper's (section 4) report large losses and add Gaussian noise to their updates. Here each of
these can be set, alone or together:

    loss_inflation  reported loss = F_k(w) + loss_inflation, not below 0
    noise_std       update + N(0, noise_std²)
    update_scale    update · update_scale; −1 is the sign flip, 10 a scaled update
    flip_labels     trains on reversed labels
    collude         all of a round add the same noise, so that it does not average out

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


class AttackHParams(NamedTuple):
    """Hyper-parameters of an attack.

    Attributes:
        fraction: Fraction of the seen clients that are Byzantine.
        loss_inflation: What they add to the loss that they report.
        noise_std: Standard deviation of what they add to their updates.
        update_scale: By what they multiply their updates.
    """

    fraction: Any = 0.0
    loss_inflation: Any = 0.0
    noise_std: Any = 0.0
    update_scale: Any = 1.0


class Attack(NamedTuple):
    """What shapes the attack, and its hyper-parameters.

    Attributes:
        active: Whether anybody is Byzantine at all.
        flip_labels: Whether they train on reversed labels.
        collude: Whether they add the same noise.
        hparams: The hyper-parameters.
    """

    active: bool = False
    flip_labels: bool = False
    collude: bool = False
    hparams: AttackHParams = AttackHParams()


def nobody() -> Attack:
    """Let all clients be honest."""
    return Attack()


def byzantine(
    fraction: ArrayLike = 0.1,
    *,
    loss_inflation: ArrayLike = 0.0,
    noise_std: ArrayLike = 0.0,
    update_scale: ArrayLike = 1.0,
    flip_labels: bool = False,
    collude: bool = False,
) -> Attack:
    """Let a fraction of the seen clients be Byzantine, as the other arguments say."""
    check_number("attack.fraction", fraction, least=0, below=1)
    check_number("attack.loss_inflation", loss_inflation)
    check_number("attack.noise_std", noise_std, least=0)
    check_number("attack.update_scale", update_scale)
    return Attack(
        True, flip_labels, collude, AttackHParams(fraction, loss_inflation, noise_std, update_scale)
    )


def byzantine_clients(seed: int | Array, fraction: float | Array, seen: int, clients: int) -> Array:
    """Draw who is Byzantine, bool[K]: the same clients for every method with one seed."""
    scores = jax.random.uniform(key(seed, Purpose.BYZANTINE), (seen,))
    rank = jnp.argsort(jnp.argsort(scores))
    return jnp.zeros(clients, bool).at[:seen].set(rank < jnp.round(fraction * seen))


def corrupt(hparams: AttackHParams, draws: Array, update: Pytree) -> Pytree:
    """Return what a Byzantine client sends instead of its update: another model's part."""
    leaves, structure = jax.tree.flatten(model_part(update))
    keys = jax.random.split(draws, len(leaves))
    sent = [
        hparams.update_scale * leaf + hparams.noise_std * jax.random.normal(k, leaf.shape)
        for k, leaf in zip(keys, leaves, strict=True)
    ]
    return with_model_part(update, jax.tree.unflatten(structure, sent))
