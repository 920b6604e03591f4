"""The shapes of a run: what is compiled in, what varies within a sweep, what a round carries."""

from typing import Any, NamedTuple

from jax import Array

from maxfl.core.aggregators import Limits
from maxfl.core.aggregators import Rule as RobustRule
from maxfl.core.algorithm import Algorithm, Pytree, Server
from maxfl.core.attacks import Attack
from maxfl.core.federation import Decoding, Samples
from maxfl.core.model import Model
from maxfl.core.participation import Presence, Rule
from maxfl.core.server_optimizers import Kind, Rates
from maxfl.engine.client_state import Memory
from maxfl.engine.layout import Layout


class Spec(NamedTuple):
    """Everything that shapes the program; two equal specs share one compilation.

    Attributes:
        model: The model.
        algorithm: The method, without its numbers.
        rule: The participation rule.
        optimiser: The server's optimiser.
        robust: How updates are put together.
        clips: Whether updates are clipped.
        attack: Whether some clients lie.
        flip_labels: Whether liars train on reversed labels.
        collude: Whether liars add the same noise.
        tunes: Whether clients tune the model before they judge it.
        classes: Number of labels.
        seen: M, the clients that can be asked.
        cohort: m, clients asked in a round.
        local_steps: τ, where it is compiled in; None where every configuration has its own.
        batch_size: The largest b of the sweep.
        masks: Whether some configurations take smaller minibatches.
        period: Most rounds between two evaluations.
        layout: Devices.
    """

    model: Model
    algorithm: Algorithm
    rule: Rule
    optimiser: Kind
    robust: RobustRule
    clips: bool
    attack: bool
    flip_labels: bool
    collude: bool
    tunes: bool
    classes: int
    seen: int
    cohort: int
    local_steps: int | None
    batch_size: int
    masks: bool
    period: int
    layout: Layout

    @property
    def watches(self) -> bool:
        """Whether every client's loss is needed in every round, to know who is willing."""
        return self.rule is Rule.OPT_OUT

    @property
    def personal(self) -> bool:
        """Whether clients use another model than the global one."""
        return self.tunes or self.algorithm.personal is not None


class SoloSpec(NamedTuple):
    """What shapes the program in which clients train alone: no method and no rule.

    Attributes:
        model: The model.
        batch_size: The largest b of the sweep.
        masks: Whether some configurations take smaller minibatches.
        steps: SGD steps.
        layout: Devices.
    """

    model: Model
    batch_size: int
    masks: bool
    steps: int
    layout: Layout


class Data(NamedTuple):
    """The arrays of a federation."""

    train: Samples
    test: Samples
    decoding: Decoding


class Numbers(NamedTuple):
    """What can vary within a sweep without another program; every leaf has a leading axis C."""

    seed: Any
    local_steps: Any
    batch_size: Any
    local_lr: Any
    server_lr: Any
    hyper: Pytree
    presence: Presence
    rates: Rates
    limits: Limits
    attack: Attack
    tuning: Any


class Setup(NamedTuple):
    """What one configuration's rounds need and never change.

    Attributes:
        spec: What is compiled in.
        data: The federation's arrays.
        owner: The client of each training sample, int32[total].
        numbers: This configuration's, without the axis C.
        requirement: ρ of the clients whose data are here, float32[n].
        lies: Who lies, bool[K].
        names: Number of each client whose data are here, int32[n]; None if all K of them are.
    """

    spec: Spec
    data: Data
    owner: Array
    numbers: Numbers
    requirement: Array
    lies: Array
    names: Array | None = None

    def number(self, place: Array) -> Array:
        """The number of the client at a place in the data: draws depend on it, not on the place."""
        return place if self.names is None else self.names[place]


class State(NamedTuple):
    """What a run carries from round to round.

    Attributes:
        server: The global model and the method's own state.
        memory: What clients keep.
        optimiser: What the server's optimiser keeps.
    """

    server: Server
    memory: Memory
    optimiser: Pytree


class Personal(NamedTuple):
    """The models that clients use instead of the global one, float32[K] each."""

    train_loss: Any
    test_loss: Any
    test_accuracy: Any


class Evaluation(NamedTuple):
    """The model after a round, seen by all K clients; float32 or bool [K] each.

    Attributes:
        train_loss: F_k(w).
        test_loss: f_k(w), held out.
        test_accuracy: Held out.
        willing: Whether the client would take part in the next round.
        weight: The weight that the client would report for this model.
        personal: The same of the clients' personal or tuned models; () where they have none.
    """

    train_loss: Array
    test_loss: Array
    test_accuracy: Array
    willing: Array
    weight: Array
    personal: Any = ()


class Asked(NamedTuple):
    """Who was asked in a round, [m] each.

    Attributes:
        client: Its number.
        sampled: Whether it was asked; where too few are available, places stay empty.
        took_part: Whether it trained and answered.
        weight: As it reported; 0 if it did not take part.
    """

    client: Array
    sampled: Array
    took_part: Array
    weight: Array
