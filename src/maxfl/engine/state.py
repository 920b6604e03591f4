"""The arrays of a run: a federation's data, what varies within a sweep, what rounds carry and give.

C configurations, K clients of which M are seen, m of them sampled in a round, R rounds, E
evaluations.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from maxfl.core.aggregators import AggregatorHParams
from maxfl.core.algorithm import Pytree, Server
from maxfl.core.attacks import AttackHParams
from maxfl.core.federation import Samples
from maxfl.core.local_optimizers import LocalHParams
from maxfl.core.model import Scaling
from maxfl.core.participation import ParticipationHParams
from maxfl.core.portfolio import PortfolioHParams, best_model, select
from maxfl.core.schedules import ScheduleHParams
from maxfl.core.server_optimizers import OptimizerHParams
from maxfl.engine.client_state import ClientStates
from maxfl.engine.evaluation import Score
from maxfl.engine.minibatches import Task
from maxfl.engine.spec import Spec


class Data(NamedTuple):
    """The arrays of a federation.

    Attributes:
        train: Samples that clients train on.
        test: Samples for reported figures.
        input_scaling: From stored features to the model's input.
        frozen: The model's frozen parameters; () where it has none.
        judging: Samples that clients judge by; () where these are the training samples.
    """

    train: Samples
    test: Samples
    input_scaling: Scaling
    frozen: Any = ()
    judging: Any = ()

    @property
    def judged(self) -> Samples:
        """Samples that clients judge by."""
        return self.judging if isinstance(self.judging, Samples) else self.train


class HParams(NamedTuple):
    """What can vary within a sweep without another program; every leaf has a leading axis C.

    Those of the algorithm, the participation rule, the optimizers, the aggregator, the attack and
    the schedules are NamedTuples of their own.
    """

    seed: Any
    local_steps: Any
    batch_size: Any
    local_lr: Any
    server_lr: Any
    algorithm: Pytree
    participation: ParticipationHParams
    server_optimizer: OptimizerHParams
    aggregator: AggregatorHParams
    attack: AttackHParams
    finetune_steps: Any
    local_optimizer: LocalHParams
    local_schedule: ScheduleHParams
    server_schedule: ScheduleHParams
    portfolio: PortfolioHParams


class SoloHParams(NamedTuple):
    """What training alone depends on; every leaf has a leading axis C.

    Attributes:
        seed: Of the run.
        local_lr: η_l.
        batch_size: b.
        steps: Local steps, where they are not compiled in.
        local_optimizer: Hyper-parameters of what takes them.
    """

    seed: Any
    local_lr: Any
    batch_size: Any
    steps: Any
    local_optimizer: LocalHParams


class State(NamedTuple):
    """What a run carries from round to round.

    Attributes:
        server: The global model and the method's server state.
        client_states: What clients keep.
        opt_state: What the server optimizer keeps.
        portfolio: What the server keeps of a portfolio; () of one model.
    """

    server: Server
    client_states: ClientStates
    opt_state: Pytree
    portfolio: Any = ()

    def of_model(self, model: Array) -> "State":
        """Return the state as a client sees it that has one model of a portfolio."""
        return self._replace(server=self.server._replace(params=select(self.server.params, model)))


class Sweep(NamedTuple):
    """What each configuration has of its own, leading axis C; without it, of one configuration.

    Attributes:
        hparams: Its hyper-parameters.
        requirement: What costs of the clients whose data are on the devices must lie below, ρ
            where losses decide, float32[C, n].
        is_byzantine: Who is Byzantine, bool[C, K].
        state: What its rounds carry.
    """

    hparams: HParams
    requirement: Any
    is_byzantine: Any
    state: State


class Measured(NamedTuple):
    """What clients find out about a model on the data that they judge by, float32[n] each.

    Attributes:
        loss: F_k(w).
        metric: That which the requirement is about; None where it is about the loss.
        picked: The model of a portfolio that it is about, int32[n]; None of one model.
    """

    loss: Any
    metric: Any = None
    picked: Any = None


class RoundContext(NamedTuple):
    """What one configuration's rounds need and never change.

    Attributes:
        spec: What is compiled in.
        data: The federation's arrays.
        hparams: This configuration's, without the axis C.
        requirement: What costs of the clients whose data are here must lie below, float32[n].
        is_byzantine: Who is Byzantine, bool[K].
        client_ids: Of the clients whose data are here, int32[n]; None if all K of them are.
    """

    spec: Spec
    data: Data
    hparams: HParams
    requirement: Array
    is_byzantine: Array
    client_ids: Array | None = None

    def client_id(self, slot: Array) -> Array:
        """Return the id of the client in a slot of the data: draws depend on it, not on the slot.

        Slots are all there are where all clients' data are here; then they are the ids.
        """
        return slot if self.client_ids is None else self.client_ids[slot]

    def measured(self, score: Score) -> Measured:
        """Return what decides of a model's scores on the data that clients judge by."""
        index = self.spec.criterion.metric
        return Measured(score.loss, None if index is None else score.metrics[index])

    def pick(self, measured: Measured) -> Measured:
        """Return what clients find out of the model that they pick, of [models, ...] each."""
        picked = best_model(self.hparams.portfolio.models, self.cost(measured), measured.loss)
        loss, metric = of_picked((measured.loss, measured.metric), picked)
        return Measured(loss, metric, picked)

    def cost(self, measured: Measured) -> Array:
        """Return what requirements are about, less being better."""
        cost = self.metric_cost(measured)
        return measured.loss if cost is None else cost

    def metric_cost(self, measured: Measured) -> Any:
        """Return it where it is a metric; None where it is the loss."""
        return None if measured.metric is None else self.spec.criterion.cost(measured.metric)

    @property
    def train_task(self) -> Task:
        """The model and the training data."""
        return Task(self.spec.model, self.data.input_scaling, self.data.train, self.data.frozen)

    @property
    def judging_task(self) -> Task:
        """The model and the data that clients judge by."""
        return self.train_task._replace(samples=self.data.judged)

    @property
    def test_task(self) -> Task:
        """The model and the test data."""
        return self.train_task._replace(samples=self.data.test)


def of_picked(tree: Any, picked: Array) -> Any:
    """Return values of the models that clients picked, [models, ...] to [...]."""
    return jax.tree.map(lambda a: jnp.take_along_axis(a, picked[None], 0)[0], tree)


class Personal(NamedTuple):
    """How the models do that clients use instead of the global one, float32[K] each.

    Fields are those of an ``Evaluation``.
    """

    judging_loss: Any
    test_loss: Any
    test_metrics: tuple[Any, ...]
    judging_metric: Any = ()


class Evaluation(NamedTuple):
    """The model after a round, as all K clients see it; float32 or bool [K] each.

    Attributes:
        judging_loss: F_k(w), on the data that clients judge by.
        test_loss: f_k(w), on test data.
        test_metrics: Those of the model on test data, in their order.
        willing: Whether the client would participate in the next round.
        weight: The weight that the client would report for this model.
        personal: The same of the clients' personal or fine-tuned models; () where they have none.
        judging_metric: On the data that clients judge by, the metric that requirements are about;
            () where they are about the loss.
        picked: The model of a portfolio that the client picks, int32; () of one model. All else is
            of that model.
    """

    judging_loss: Array
    test_loss: Array
    test_metrics: tuple[Array, ...]
    willing: Array
    weight: Array
    personal: Any = ()
    judging_metric: Any = ()
    picked: Any = ()


class CohortRecord(NamedTuple):
    """The cohort of a round, [m] each.

    Attributes:
        client_id: Of each sampled client.
        sampled: Whether it is real; where too few are available, slots stay empty.
        participated: Whether it trained and replied.
        weight: As it reported; 0 if it did not participate.
        model: The model of a portfolio that it trained, int32; () of one model.
    """

    client_id: Array
    sampled: Array
    participated: Array
    weight: Array
    model: Any = ()


class ModelStep(NamedTuple):
    """The server's step of a round, float32 each.

    Attributes:
        step_norm: ‖w_{t+1} − w_t‖; 0 where the model stayed as it was.
        model_norm: ‖w_{t+1}‖.
    """

    step_norm: Any
    model_norm: Any


class RoundRecord(NamedTuple):
    """What is known of a round: its cohort and the server's step."""

    cohort: CohortRecord
    step: ModelStep


class RoundCounts(NamedTuple):
    """Counts of honest clients in each round, where a history shows only some; int[C, R].

    Attributes:
        responded: Those that said whether they were willing.
        willing: Those of them that were: their share estimates that of all.
        participated: Those that trained and replied.
    """

    responded: Any
    willing: Any
    participated: Any

    @property
    def willing_share(self) -> Any:
        """Willing among those that responded, float32[C, R]; NaN where nobody did."""
        with np.errstate(invalid="ignore"):  # 0/0 is NaN
            return np.asarray(np.divide(self.willing, self.responded), np.float32)


class Block(NamedTuple):
    """What one call of the compiled program gave, on the host.

    Attributes:
        rounds: Rounds done at each of its evaluations, int[P].
        evaluation: [C, P, K] each.
        cohorts: [C, rounds of the block, m] each.
        steps: [C, rounds of the block] each.
        counts: Where data are streamed, [C, rounds of the block] each; else ().
    """

    rounds: Any
    evaluation: Evaluation
    cohorts: CohortRecord
    steps: ModelStep
    counts: Any = ()


def count_measures(metrics: int, *, personal: bool) -> int:
    """Count the numbers of a client in an evaluation by so many metrics."""
    more = metrics - 1  # the fields have a place for one
    return len(Evaluation._fields) + more + (len(Personal._fields) + more if personal else 0)
