"""A client's part: measure the model that comes in, weigh, and decide, around any ClientApp.

The app trains as it did before. The mod computes F_k(w) and, once, ρ_k; adds q_k to the reply's
metrics; or answers for the app that the client stays away. Loss and requirement stay on the client.

A client should judge by data that it does not train on: a model that it trained alone may have
learnt its training samples by heart, and no other beats it there, however much better it is on new
ones. So split a client's data into three parts: what it trains on, what it judges by, and what is
for reported figures alone.
"""

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

from flwr.app import ConfigRecord, Context, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from maxfl.core import appeal
from maxfl.flower import keys
from maxfl.flower.client.control_variate import Named, train_corrected, without_control
from maxfl.flower.client.handlers import HandlerJudge, Handlers, check_judge, is_initial
from maxfl.flower.client.measuring import ClientCriterion, Loss, Measurement
from maxfl.flower.client.portfolio import config_of, first_of, pick
from maxfl.flower.client.requirement_store import RequirementStore
from maxfl.utils.errors import InputError, shorten

RENAMED = {"held_out": "test"}
"""Arguments of earlier versions, and what they are called now."""


class AppealMod:
    """A mod that makes an app a client of MaxFL: ``ClientApp(mods=[appeal_mod(...)])``.

    Args:
        loss_fn: Mean loss of the incoming model over the client's judging data, which it does not
            train on. In the paper these are its training data.
        requirement: ρ_k: a number, or ``requirement(message, context)``, called once per client and
            run, such as one that trains a model alone and returns its loss on the same data.
        test: A loss and a requirement for test data, by which clients say whether they are
            satisfied when the model is evaluated; without it, judging data serve for that too.
            Weights and declining are by judging data in any case.
        keep: Where requirements that are computed outlive the run, so that they are called once
            for a client's data and settings.
        unknown: Nothing else is taken.
    """

    def __init__(
        self,
        loss_fn: Loss,
        requirement: float | Loss,
        *,
        test: tuple[Loss, float | Loss] | None = None,
        keep: RequirementStore | None = None,
        **unknown: Any,
    ) -> None:
        _refuse_unknown(unknown)
        _check_functions(loss_fn, requirement)
        _check_store(keep)
        self.judging = ClientCriterion(keys.LOSS, keys.REQUIREMENT, loss_fn, requirement, keep)
        self.test = None
        if test is not None:
            _check_functions(*_pair(test))
            self.test = ClientCriterion(keys.TEST_LOSS, keys.TEST_REQUIREMENT, *test, keep)

    def __call__(self, message: Message, context: Context, app: ClientAppCallable) -> Message:
        """Answer a message, with the app's help."""
        kind = message.metadata.message_type
        if kind not in (MessageType.TRAIN, MessageType.EVALUATE):
            return app(message, context)
        message, control = without_control(message)
        if keys.SECURE in message.content.config_records:
            raise InputError(
                "the server asks for secure aggregation, for which this client has no mod: "
                "ClientApp(mods=[secure_mod, appeal_mod(...)])"
            )
        if config_of(message).get(keys.PREPARE, False):
            return self._prepare(message, context)
        if kind == MessageType.TRAIN:
            if control:
                run: Any = config_of(message)[keys.CONTROL_RUN]
                app = partial(_corrected, control, run, app)
            return _train(self.judging, message, context, app)
        return _evaluate(self.judging, self.test, message, context, app)

    @staticmethod
    def from_evaluate(
        key: str = "loss",
        *,
        handlers: Handlers,
        higher_is_better: bool = False,
        solo_rounds: int = 10,
        requirement: float | None = None,
        keep: RequirementStore | None = None,
    ) -> "AppealMod":
        """Return a mod that judges by the app's own handlers.

        ``appeal_mod.from_evaluate("loss", handlers=lambda: (train, evaluate))``.

        Args:
            key: Metric of the evaluate handler's reply that decides. The handler should measure it
                on data that the train handler does not train on.
            handlers: Returns the app's handlers, which are defined after the mod.
            higher_is_better: Whether more of the metric is better, as of accuracy. Then the model
                must be at least as good as required; a loss it must beat.
            solo_rounds: How often the train handler trains the solo model, which begins with the
                model of the client's first message and whose metric is required.
            requirement: What is required of the metric in place of that.
            keep: Where the requirement outlives the run.
        """
        judge = HandlerJudge(key, handlers, higher_is_better, solo_rounds, requirement)
        check_judge(judge)
        _check_store(keep)
        store = keep and keep.with_settings(*judge.settings)
        mod = AppealMod(judge.cost, judge.bound(), keep=store)
        # What begins with others' learning is of this run alone.
        mod.judging = mod.judging._replace(may_keep=is_initial)
        return mod

    def _prepare(self, message: Message, context: Context) -> Message:
        """Compute and keep what the client requires, and say nothing of it."""
        computed = [c for c in (self.judging, self.test) if c and callable(c.requirement)]
        if not computed:
            raise InputError("this client's requirement is a number: there is nothing to prepare")
        keep = self.judging.keep
        if keep is None or keep.folder_on(context) is None:
            raise InputError(
                f"what this client requires would not be kept: appeal_mod needs "
                f"keep=RequirementStore(...), and the node's config "
                f'{keys.REQUIREMENTS_FOLDER}="/an/absolute/path"'
            )
        for criterion in computed:
            criterion.required(message, context)
        return Message(RecordDict(), reply_to=message)


appeal_mod = AppealMod


def _train(
    criterion: ClientCriterion, message: Message, context: Context, app: ClientAppCallable
) -> Message:
    """Let the app train and add the weight to its reply, or decline for it."""
    config, picked = config_of(message), pick(criterion, message, context)
    measured = picked.measured or criterion.measure(message, context)
    if config.get(keys.MAY_DECLINE, False) and not measured.satisfied:
        reason = "by its judging data, the model does not meet its requirement"
        return Message(Error(keys.DECLINED, reason), reply_to=message)
    losses: dict[str, float] = {}
    if config.get(keys.COLLECT_LOSSES, False):
        losses = _losses(criterion, measured) | _client_id(context)
    answers = picked.training_answers()
    reply = app(picked.message, context)
    if reply.has_error():
        return reply
    weight = _weight(measured, config)
    solver = _solver_metrics(measured, config.get(keys.SCALE), config.get(keys.QUANTILE))
    metrics = {keys.SATISFIED: int(measured.satisfied), keys.WEIGHT: weight}
    _add_metrics(reply, metrics | solver | losses | answers)
    return reply


def _corrected(
    control: Named, run: int, app: ClientAppCallable, message: Message, context: Context
) -> Message:
    """Let the app train by SCAFFOLD."""
    return train_corrected(message, control, run, context, app)


def _weight(measured: Measurement, config: ConfigRecord) -> float:
    """Return q_k of the gap, or F_k^q where the server trains by q-FFL."""
    fairness: Any = config.get(keys.FAIRNESS)
    if fairness is not None:
        if measured.loss < 0:
            raise InputError(
                "the server trains by q-FFL, which weighs clients by their losses, and this one "
                "judges by a metric of which more is better: judge by a loss"
            )
        return float(appeal.fair_weight(measured.loss, fairness))
    temperature: Any = config.get(keys.TEMPERATURE, 1.0)
    return float(appeal.weight(measured.loss, measured.requirement, temperature))


def _solver_metrics(measured: Measurement, scale: Any, quantile: Any) -> dict[str, float]:
    """Return what the temperature follows: ``appeal.nearness``, whether the gap is below s_t.

    The gap itself goes out only where the server knows no s_t yet, and begins at the mean gap.
    """
    if scale is None:
        return {}
    gap = measured.loss - measured.requirement
    near = float(appeal.nearness(gap, measured.requirement, scale, quantile))
    return {keys.NEAR: near} | ({} if scale > 0 else {keys.GAP: abs(gap)})


def _evaluate(
    judging: ClientCriterion,
    test: ClientCriterion | None,
    message: Message,
    context: Context,
    app: ClientAppCallable,
) -> Message:
    """Let the app evaluate, and add to its reply whether the client is satisfied."""
    criterion = judging if test is None else test
    criterion.required(first_of(message), context)  # whichever model is picked
    picked = pick(judging, message, context)
    message, judged = picked.message, picked.measured
    measured = judged if judged and criterion is judging else criterion.measure(message, context)
    losses: dict[str, float] = {}
    if config_of(message).get(keys.COLLECT_LOSSES, False):
        if criterion is test:
            losses = _losses(judging, judged or judging.measure(message, context))
        losses |= _losses(criterion, measured) | _client_id(context)
    reply = app(message, context)
    if reply.has_error():
        return reply
    satisfied, on_test = int(measured.satisfied), int(criterion is test)
    answers = {keys.SATISFIED: satisfied, keys.ON_TEST: on_test}
    _add_metrics(reply, answers | losses | picked.answers())
    return reply


def _refuse_unknown(arguments: Iterable[str]) -> None:
    """Refuse arguments of earlier versions with their new names, and others."""
    for name in arguments:
        new = f"{name}= is called {RENAMED[name]}= now" if name in RENAMED else f"no {name}= here"
        raise InputError(
            f"appeal_mod: {new}; expected appeal_mod(loss_fn, requirement, test=(loss_fn, "
            f"requirement))"
        )


def _pair(test: Any) -> tuple[Any, Any]:
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise InputError(
            f"appeal_mod(..., test={test!r:.60}): expected a pair (loss_fn, requirement) for the "
            f"client's test data"
        )
    return test[0], test[1]


def _check_functions(loss_fn: Loss, requirement: float | Loss) -> None:
    if not callable(loss_fn):
        raise InputError(f"appeal_mod(loss_fn, ...): loss_fn is {loss_fn!r}; expected a function")
    if callable(requirement):
        return
    if not isinstance(requirement, int | float) or not math.isfinite(requirement):
        raise InputError(
            f"appeal_mod(..., requirement): {requirement!r} is neither a finite number nor a "
            f"function"
        )


def _check_store(keep: Any) -> None:
    if keep is not None and not isinstance(keep, RequirementStore):
        raise InputError(
            f"appeal_mod(..., keep={shorten(keep)}): expected RequirementStore(data_of)"
        )


def _losses(criterion: ClientCriterion, measured: Measurement) -> dict[str, float]:
    """Return loss and requirement as metrics, for an operator who collects them."""
    return {criterion.loss_key: measured.loss, criterion.requirement_key: measured.requirement}


def _client_id(context: Context) -> dict[str, float]:
    number = context.node_config.get(keys.PARTITION)
    return {keys.PARTITION: number} if isinstance(number, int) else {}


def _add_metrics(reply: Message, metrics: dict[str, float]) -> None:
    """Add to the reply's metrics; Flower's strategies expect exactly one such record."""
    content: RecordDict = reply.content
    if not content.metric_records:
        content["metrics"] = MetricRecord()
    record = next(iter(content.metric_records.values()))
    for name, value in metrics.items():
        record[name] = value
