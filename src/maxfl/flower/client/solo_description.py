"""What the requirement of a client in JAX depends on: all that its solo model is trained from."""

from typing import Any

from maxfl.algorithms.fedavg import fedavg
from maxfl.core.federation import Federation
from maxfl.core.local_optimizers import LocalOptimizer
from maxfl.core.model import Model
from maxfl.core.requirements.requirement import Requirement
from maxfl.engine.experiment import Training, make_experiment


def describe_solo(
    federation: Federation,
    model: Model,
    training: Training,
    seed: int,
    local_optimizer: LocalOptimizer,
    requirement: Requirement,
) -> dict[str, Any]:
    """Return digests of data and model, and settings, but for those that no solo model follows."""
    alone = Training(local_lr=training.local_lr, batch_size=training.batch_size)
    experiment = make_experiment(
        federation, model, fedavg(), alone, seed=seed, local_optimizer=local_optimizer,
        requirement=requirement,
    )  # fmt: skip
    return experiment.describe()
