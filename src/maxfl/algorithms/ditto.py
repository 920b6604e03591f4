"""Ditto: FedAvg's global model, and a personal model near it for each client.

Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through Personalization", ICML
2021, algorithm 1.

    v_k ← v_k − η_l (∇f_k(v_k) + λ (v_k − w))              τ times, on the global step's minibatches

It differs from FedAvg in nothing that the server sees; clients keep and use v_k. λ = 0 is training
alone on the rounds' minibatches, a large λ the global model. v_k starts at the model that the
client first receives; the authors start all at w⁰, which is the same when all participate at once.
"""

from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.algorithms.fedavg import client_update as train
from maxfl.core.algorithm import Algorithm, Client, LocalTask, Server, descend, pulled
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class HParams(NamedTuple):
    """Hyper-parameters of Ditto: λ, how strongly a personal model is held near the global one."""

    strength: Any = 0.1


def init_client(params: Params) -> Params:
    """Return the received model: v_k, until the client has trained."""
    return params


def client_update(
    hparams: HParams, server: Server, client_state: Params, client: Client, task: LocalTask
) -> tuple[Params, Params]:
    """Take FedAvg's steps for the server, and τ steps of the personal model."""
    update, _ = train(hparams, server, client_state, client, task)
    held = pulled(task.gradient, server.params, hparams.strength)
    personal = descend(client_state, held, task.steps, task.learning_rate, task.optimizer)
    return update, personal


def personalize(
    hparams: HParams, server: Server, client_state: Params, client: Client, task: LocalTask
) -> Params:
    """Return v_k."""
    return client_state


def ditto(strength: ArrayLike = 0.1) -> Algorithm:
    """Return Ditto, in which each client keeps a personal model near the global one.

    Args:
        strength: λ, how strongly personal models are held near the global one.
    """
    check_number("algorithm.strength", strength, least=0)
    return BASE._replace(
        name="ditto",
        hparams=HParams(strength),
        init_client=init_client,
        client_update=client_update,
        personalize=personalize,
    )
