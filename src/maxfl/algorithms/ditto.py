"""Ditto: beside FedAvg's global model, a personal one that stays near it.

Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through Personalization", ICML
2021, algorithm 1.

    v_k ← v_k − η_l (∇f_k(v_k) + λ (v_k − w))              τ times, on the global step's minibatches

It differs from FedAvg in nothing that the server sees; clients keep and use v_k. λ = 0 is training
alone on the rounds' minibatches, a large λ the global model. v_k starts at the model that the
client first receives; the authors start all at w⁰, which is the same when all take part at once.
"""

from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.algorithms.fedavg import local as train
from maxfl.core.algorithm import Algorithm, Client, Server, Work, descend, pulled
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class Hyper(NamedTuple):
    """Numbers of Ditto: λ, how strongly a personal model is held near the global one."""

    strength: Any = 0.1


def memory(params: Params) -> Params:
    """v_k is the received model, until the client has trained."""
    return params


def local(
    hyper: Hyper, server: Server, memory: Params, client: Client, work: Work
) -> tuple[Params, Params]:
    """FedAvg's steps for the server; τ steps of the personal model for oneself."""
    update, _ = train(hyper, server, memory, client, work)
    held = pulled(work.gradient, server.params, hyper.strength)
    return update, descend(memory, held, work.steps, work.learning_rate)


def personal(hyper: Hyper, server: Server, memory: Params, client: Client, work: Work) -> Params:  # noqa: ARG001
    """v_k."""
    return memory


def ditto(strength: ArrayLike = 0.1) -> Algorithm:
    """Ditto, whose clients keep a personal model near the global one.

    Args:
        strength: λ, how strongly personal models are held near the global one.
    """
    check_number("algorithm.strength", strength, least=0)
    return BASE._replace(
        name="ditto",
        hyper=Hyper(strength),
        memory=memory,
        local=local,
        personal=personal,
    )
