"""A portfolio on a client: measure all models that came, pick the best, hand the app that one.

The rules are those of ``maxfl.core.portfolio``, which a test holds these to; here they are of plain
numbers, since clients need no JAX.
"""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict

from maxfl.flower import keys
from maxfl.flower.client.measuring import ClientCriterion, Measurement, NotFiniteError
from maxfl.flower.replies.arrays import of_model, to_arrays, to_record
from maxfl.flower.replies.metrics import MAX_MAGNITUDE


class Picked(NamedTuple):
    """The model that a client uses.

    Attributes:
        message: As if it had come alone.
        number: Which of several it is; None where there is but one.
        measured: How it does; None where there is but one, which nobody had to measure to pick.
    """

    message: Message
    number: int | None
    measured: Measurement | None

    def answers(self) -> dict[str, float]:
        """Return what an evaluation says of it; nothing where there is but one."""
        return {} if self.number is None else {keys.MODEL: self.number}

    def training_answers(self) -> dict[str, float]:
        """Return what a training says of it: the model trained, and the gap where it is asked."""
        if self.number is None or self.measured is None:
            return {}
        config, gap = config_of(self.message), _gap(self.measured)
        answers: dict[str, float] = {keys.MODEL: model_to_train(config, self.number, gap)}
        if keys.UNMET_GAP in config:
            answers[keys.UNMET_GAP] = min(gap, MAX_MAGNITUDE) if gap > 0 else 0.0
        return answers


def pick(criterion: ClientCriterion, message: Message, context: Context) -> Picked:
    """Measure every model of a message and return the best; the only one, where one came."""
    config = config_of(message)
    if keys.MODELS not in config:
        return Picked(message, None, None)
    number: Any = config.get(keys.MODEL)
    if number is not None:
        return Picked(message, number, criterion.measure(message, context))
    models: Any = config[keys.MODELS]
    # One at a time: there is room for one model more, not for all of them twice.
    measured = [_measure(criterion, with_model(message, j), context) for j in range(models)]
    tie_loss = criterion.tie_loss
    best = best_model(
        [found.loss for found in measured],
        None if tie_loss is None else lambda j: tie_loss(with_model(message, j), context),
    )
    return Picked(with_model(message, best), best, measured[best])


def _measure(criterion: ClientCriterion, message: Message, context: Context) -> Measurement:
    """Measure one of several models; one that diverges is the worst, and others may be picked."""
    try:
        return criterion.measure(message, context)
    except NotFiniteError:
        return Measurement(math.nan, criterion.required(message, context))


def first_of(message: Message) -> Message:
    """Return a message with the first of its models alone: requirements may begin with it."""
    config = config_of(message)
    has_all = keys.MODELS in config and keys.MODEL not in config
    return with_model(message, 0) if has_all else message


def best_model(costs: Sequence[float], loss_of: Callable[[int], float] | None = None) -> int:
    """Return the model of least cost, of equal ones that of least loss; NaN is the worst."""
    known = list(map(_worst_if_nan, costs))
    ties = [j for j, cost in enumerate(known) if cost <= min(known)]
    if loss_of is None or len(ties) == 1:
        return ties[0]
    return min(ties, key=lambda j: _worst_if_nan(loss_of(j)))


def model_to_train(config: ConfigRecord, picked: int, gap: float) -> int:
    """Return the model that a client trains: the one that it picked, or the one that starts anew.

    That one is a twin of the donor, so that the arrays are the same.
    """
    vacant: Any = config.get(keys.VACANT)
    donor: Any = config.get(keys.DONOR)
    mean: Any = config.get(keys.UNMET_GAP)
    if vacant is None or picked not in (vacant, donor):
        return picked
    return int(vacant if gap >= mean else donor)


def with_model(message: Message, number: int) -> Message:
    """Return a message as if one of its models had come alone; the given one stays as it is."""
    content: RecordDict = message.content
    alone = {
        key: to_record(of_model(to_arrays(record), number))
        for key, record in content.array_records.items()
    }
    made = copy.copy(message)
    made.content = RecordDict({**content, **alone})
    return made


def config_of(message: Message) -> ConfigRecord:
    """Return the config of a message."""
    return next(iter(message.content.config_records.values()), ConfigRecord())


def _gap(measured: Measurement) -> float:
    """Return F_k − ρ_k in the precision of the simulation."""
    return float(np.float32(measured.loss) - np.float32(measured.requirement))


def _worst_if_nan(value: float) -> float:
    return math.inf if math.isnan(value) else value
