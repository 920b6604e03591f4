"""What a user chose for a run: the federation, the model, the method, and all around it."""

from typing import NamedTuple

from numpy.typing import ArrayLike

from maxfl.adversary import Adversary
from maxfl.algorithms.contract import Algorithm
from maxfl.federation import Federation
from maxfl.model import Model
from maxfl.optimisers import Optimiser
from maxfl.participation import Participation
from maxfl.requirement import Requirement
from maxfl.robust import Robust
from maxfl.spec import Numbers


class Training(NamedTuple):
    """How the model is trained.

    Attributes:
        rounds: T.
        cohort: m, clients asked in a round.
        local_steps: τ, SGD steps of a client in a round; a number, or one per configuration.
        batch_size: b; a number, or one per configuration. Where they differ, every minibatch is
            computed at the largest size, with the rest masked.
        local_lr: η_l; a number, or one per configuration.
        server_lr: η_g; a number, or one per configuration.
        evaluate_every: Rounds between two evaluations; the untrained and the final model are
            always evaluated.
        block: About so many rounds make one call of the compiled program; the host saves and
            shows progress in between.
    """

    rounds: int = 200
    cohort: int = 5
    local_steps: ArrayLike = 30
    batch_size: ArrayLike = 32
    local_lr: ArrayLike = 0.05
    server_lr: ArrayLike = 1.0
    evaluate_every: int = 5
    block: int = 20


class Plan(NamedTuple):
    """Everything that a result depends on; see ``Simulation`` for what each is."""

    federation: Federation
    model: Model
    algorithm: Algorithm
    training: Training
    requirement: Requirement
    participation: Participation
    optimiser: Optimiser
    robust: Robust
    adversary: Adversary
    tuning: ArrayLike
    seed: ArrayLike

    @property
    def numbers(self) -> Numbers:
        """What can vary within a sweep without another program, as the user gave it."""
        return Numbers(
            self.seed,
            self.training.local_steps,
            self.training.batch_size,
            self.training.local_lr,
            self.training.server_lr,
            self.algorithm.hyper,
            self.participation.presence,
            self.optimiser.rates,
            self.robust.limits,
            self.adversary.attack,
            self.tuning,
        )
