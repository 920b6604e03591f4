"""Judging by an app's own handlers: for apps without a function "loss of these parameters".

The loss is what the app's evaluate handler says of the model that came in; the solo model is what
its train handler makes of that model in a few rounds in which nobody else takes part. Both get
copies of message and state, so that the app goes on as if they had not been called.
"""

import copy
import math
from collections.abc import Callable
from logging import INFO, WARNING
from typing import Any, NamedTuple

from flwr.app import ArrayRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.logger import log

from maxfl.core.criterion import Criterion
from maxfl.flower import keys
from maxfl.flower.client.measuring import NotFiniteError
from maxfl.utils.errors import InputError, check_count, check_number, did_you_mean, shorten

Handlers = Callable[[], tuple[ClientAppCallable, ClientAppCallable]]
"""Returns the app's train and evaluate handlers, which stand below the app: ``lambda: (train,
evaluate)``."""
ROUND = "server-round"
"""Config of Flower's messages: which round it is, counted from 1."""


class HandlerJudge(NamedTuple):
    """A client that judges models by what its app's handlers do.

    Attributes:
        key: Metric of the evaluate handler's reply that decides.
        handlers: The app's own.
        higher_is_better: Whether more of it is better; then the cost is its negative, and a model
            that is as good as the solo model satisfies.
        solo_rounds: How often the solo model is trained.
        requirement: What the metric must reach, in place of a solo model.
    """

    key: str
    handlers: Handlers
    higher_is_better: bool = False
    solo_rounds: int = 10
    requirement: float | None = None

    @property
    def settings(self) -> tuple[str, bool, int]:
        """What the requirement depends on beside the client's data."""
        return self.key, self.higher_is_better, self.solo_rounds

    @property
    def criterion(self) -> Criterion:
        """The rule of the simulation: a loss must be beaten, a metric be reached."""
        return Criterion(0, higher_is_better=True) if self.higher_is_better else Criterion()

    def bound(self) -> float | Callable[[Message, Context], float]:
        """Return what the cost must lie below: a number, or what trains alone for it."""
        if self.requirement is None:
            return self.solo
        return float(self.criterion.bound(self.requirement))

    def cost(self, message: Message, context: Context) -> float:
        """Return what the evaluate handler says of the model that came in."""
        return float(self.criterion.cost(self._value(message, _apart(context))))

    def solo(self, message: Message, context: Context) -> float:
        """Train alone, from the model that came in, and return what the result must be beaten by.

        State that the train handler leaves is there in the next solo round, and gone after.
        """
        _check_start(message)
        log(INFO, "training alone for %d rounds", self.solo_rounds)
        apart = _apart(context)
        for number in range(1, self.solo_rounds + 1):
            reply = self._call("train", _as(MessageType.TRAIN, message, number), apart)
            message = _with_model(message, reply.content)
        return float(self.criterion.bound(self._value(message, apart)))

    def _value(self, message: Message, context: Context) -> float:
        """Return the metric of the model in a message."""
        reply = self._call("evaluate", _as(MessageType.EVALUATE, message), context)
        metrics: dict[str, Any] = {}
        for record in reply.content.metric_records.values():
            metrics |= record
        if self.key not in metrics:
            raise InputError(
                f"appeal_mod.from_evaluate({self.key!r}): the app's evaluate handler replies with "
                f"{', '.join(metrics) or 'no metrics'}; name one of them, or add {self.key!r} to "
                f"its MetricRecord{did_you_mean(self.key, metrics)}"
            )
        value = metrics[self.key]
        if isinstance(value, list) or not math.isfinite(value):
            raise NotFiniteError(
                f"appeal_mod.from_evaluate({self.key!r}): the app's evaluate handler replies with "
                f"{self.key} = {shorten(value)}; expected a finite number. Does the model diverge?"
            )
        return float(value)

    def _call(self, name: str, message: Message, context: Context) -> Message:
        """Call a handler of the app, and say of an error which one it is from."""
        train, evaluate = self._found()
        try:
            reply = (train if name == "train" else evaluate)(message, context)
        except Exception as error:
            raise InputError(
                f"the app's {name} handler, called by appeal_mod.from_evaluate, raised "
                f"{type(error).__name__}: {error}. Fix it in the client's app"
            ) from error
        if reply.has_error():
            raise InputError(
                f"the app's {name} handler, called by appeal_mod.from_evaluate, replied with an "
                f"error: {reply.error.reason}"
            )
        return reply

    def _found(self) -> tuple[ClientAppCallable, ClientAppCallable]:
        try:
            train, evaluate = self.handlers()
        except (NameError, TypeError, ValueError) as error:
            raise InputError(
                f"appeal_mod.from_evaluate(..., handlers=...) does not lead to the app's handlers "
                f"({error}): expected lambda: (train, evaluate), with the names of the functions "
                f"below @app.train() and @app.evaluate()"
            ) from error
        return train, evaluate


def check_judge(judge: HandlerJudge) -> None:
    """Refuse arguments of ``from_evaluate`` that can't be meant."""
    if not isinstance(judge.key, str) or not judge.key:
        raise InputError(
            f"appeal_mod.from_evaluate({shorten(judge.key)}): expected the name of a metric in "
            f"the evaluate handler's reply"
        )
    if not callable(judge.handlers):
        raise InputError(
            f"appeal_mod.from_evaluate(..., handlers={shorten(judge.handlers)}): expected a "
            f"function that returns the app's handlers, lambda: (train, evaluate)"
        )
    check_count("appeal_mod.from_evaluate(..., solo_rounds=...)", judge.solo_rounds, least=1)
    if judge.requirement is not None:
        check_number("appeal_mod.from_evaluate(..., requirement=...)", judge.requirement)


def _check_start(message: Message) -> None:
    """Refuse to train from no model, and warn of one that begins with what others have learned."""
    if not message.content.array_records:
        raise InputError(
            "the solo model of appeal_mod.from_evaluate begins with the federation's initial "
            "model, and none came: name its file, `maxfl flower prepare ... --model FILE`"
        )
    if not is_initial(message):
        log(WARNING, "this client's solo model begins with the federation's model of round %s, not "
            "with the initial one, so it requires more than others, in this run: prepare what it "
            "requires (maxfl flower prepare --model)", _round(message))  # fmt: skip


def is_initial(message: Message) -> bool:
    """Return whether a message has the federation's initial model."""
    return _round(message) <= 1 and message.metadata.message_type != MessageType.EVALUATE


def _round(message: Message) -> Any:
    config: Any = next(iter(message.content.config_records.values()), {})
    return config.get(ROUND, 1)


def _apart(context: Context) -> Context:
    """Return a copy of a context: what is done to it does not reach the app."""
    return copy.deepcopy(context)


def _as(kind: str, message: Message, number: int | None = None) -> Message:
    """Return a copy of a message as one of another kind, in a round of its own if one is given."""
    made = copy.deepcopy(message)
    made.metadata.message_type = kind
    for config in made.content.config_records.values():
        if number is not None and ROUND in config:
            config[ROUND] = number
        if number is not None and keys.PROXIMAL_MU in config:
            config[keys.PROXIMAL_MU] = 0.0  # alone, nothing holds it near the federation's model
    return made


def _with_model(message: Message, trained: RecordDict) -> Message:
    """Return a copy of a message with the trained model in the place of the one that came in."""
    made = copy.deepcopy(message)
    sent, found = made.content.array_records, trained.array_records
    if len(sent) != 1 or len(found) != 1:
        raise InputError(
            f"appeal_mod.from_evaluate: the message has {len(sent)} records of arrays, and the "
            f"train handler's reply {len(found)}; expected one in each, the model"
        )
    (name,), (model,) = sent, found.values()
    made.content[name] = ArrayRecord(dict(model.items()))
    return made
