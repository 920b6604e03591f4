"""A program of somebody who uses maxfl: every type that it names is the one that checkers see."""

from typing import Any, NamedTuple, assert_type

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import maxfl
from maxfl.algorithms.fedavg import BASE
from maxfl.core.algorithm import Client, Server

Floats = NDArray[np.float32]
Params = dict[str, jax.Array]


class HParams(NamedTuple):
    """Hyper-parameters of a method of one's own."""

    power: float = 1.0


def weight(hparams: HParams, _: Server, client: Client) -> jax.Array:
    """Weigh clients by a power of their loss."""
    return jnp.power(client.loss, hparams.power)


def loss_weighted(power: float = 1.0) -> maxfl.Algorithm:
    """Return a method of one's own."""
    return BASE._replace(name="loss-weighted", hparams=HParams(power), weight=weight)


def linear() -> maxfl.Model:
    """Return a model of one's own."""

    def init(key: jax.Array) -> Params:
        return {"w": 0.1 * jax.random.normal(key, (3, 2))}

    def apply(params: Params, x: jax.Array, key: jax.Array | None = None) -> jax.Array:  # noqa: ARG001
        return x @ params["w"]

    return maxfl.Model(init=init, apply=apply)


def made_up_federation() -> maxfl.Federation:
    """Return four clients, one of which never trains."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 20, 3)).astype(np.float32)
    clients = [(one, (one[:, 0] > 0).astype(np.int64)) for one in x]
    return maxfl.Federation.from_clients(clients, clients, unseen=1)


def describe(history: maxfl.History) -> str:
    """Return what came out, in a line."""
    appeal = history.gm_appeal("unseen")
    assert_type(appeal, Floats)
    assert_type(history.rounds, NDArray[np.int64])
    assert_type(history.test_metric("seen"), Floats)
    assert_type(history.metrics("seen"), dict[str, Floats])
    assert_type(history.participated(), NDArray[np.bool_])
    assert_type(history.evaluation.test_loss.shape, tuple[int, ...])
    return f"{float(appeal[0, -1]):.2f} after {int(history.rounds[-1])} rounds"


def main() -> None:
    """Train both models with three methods."""
    federation = made_up_federation()
    assert_type(federation, maxfl.Federation)
    assert_type(federation.clients, int)
    training = maxfl.Training(rounds=2, cohort=2, local_steps=2, local_lr=0.1)
    assert_type(training, maxfl.Training)
    assert_type(maxfl.logistic(), maxfl.Model)
    assert_type(maxfl.fedavg(), maxfl.Algorithm)
    for method in (maxfl.fedavg(), maxfl.maxfl_auto(), loss_weighted(2.0)):
        history = maxfl.simulate(
            federation,
            linear(),
            method,
            training,
            requirement=maxfl.solo(steps=3),
            participation=maxfl.opt_out(start_round=1),
            server_optimizer=maxfl.server_optimizers.adam(),
            server_schedule=maxfl.schedules.exponential(0.5),
            seed=range(2),
        )
        assert_type(history, maxfl.History)
        print(method.name, describe(history))
    simulation = maxfl.Simulation(federation, maxfl.logistic(), maxfl.maxfl_auto(), training)
    assert_type(simulation, maxfl.Simulation)
    assert_type(simulation.describe(), dict[str, Any])


if __name__ == "__main__":
    try:
        main()
    except maxfl.InputError as error:
        raise SystemExit(str(error)) from error
