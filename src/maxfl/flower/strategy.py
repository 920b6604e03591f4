"""The server's part: a Flower strategy that takes MaxFL's weighted step.

A subclass of Flower's FedAvg, whose sampling, evaluation and loop stay. The step is that of the
simulation: the same direction, the same aggregators.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result
from flwr.serverapp.strategy.strategy_utils import sample_nodes

from maxfl.core.aggregators import AggregationRule, Aggregator, krum_limit, mean
from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.flower import keys
from maxfl.flower.config import (
    StrategyConfig,
    check_state_arrays,
    describe,
    refuse_renamed,
    validate,
)
from maxfl.flower.evaluation import (
    MetricNames,
    read_evaluations,
    summarise_round,
    with_common_metrics,
)
from maxfl.flower.privacy import Privacy, add_noise, guarantee, is_lost_in_noise, poisson_sample
from maxfl.flower.replies import Arrays, ReplyLimits, SortedReplies, sort_replies
from maxfl.flower.round_log import ClientEvaluation, Event, Participant, Round, format_round
from maxfl.flower.run_folder import (
    FederationFolder,
    RunInfo,
    TrainingState,
    open_federation_folder,
)
from maxfl.flower.secagg_server import SecAggGrid
from maxfl.flower.sums import (
    Counts,
    RoundSums,
    count_replies,
    estimate_counts,
    sum_updates,
    take_step,
)
from maxfl.utils.errors import InputError, check_number

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


class MaxFL(FedAvg):
    """Cho et al., "Maximizing Global Model Appeal in Federated Learning", TMLR 2024.

    Clients need ``maxfl.flower.appeal_mod``. Options not named here are FedAvg's.

    Attributes:
        rounds: What happened in each round.
        rng: Draws nodes and noise, where results are differentially private. Not from a seed:
            whoever knew it could take the noise away.

    Args:
        temperature: T of the weight.
        epsilon: ε below the fraction.
        server_lr: η_g.
        decline_after: Rounds after which clients that are not satisfied may stay away; None: never.
        min_participants: If fewer clients participated, nobody may decline in the next round.
        min_replies: With fewer good replies, the model stays as it was.
        max_update_norm: Longer updates are rejected.
        aggregator: Clipping and robust aggregation, one of ``maxfl.aggregators``.
        observe_only: Train as FedAvg does, and only report appeal: to look before one switches.
        collect_losses: Ask clients for their losses and requirements too, for a report client by
            client.
        privacy: Noise, secure aggregation or both.
        metric: What clients measure of the model on held-out data, for the report.
        metric_key: What the clients' apps call it; by default by its name.
        state_arrays: Patterns for names of arrays that no gradient trains, such as "*.running_*" of
            PyTorch: they are averaged, whatever η_g is. By default "state.*", of
            ``maxfl.Variables``.
        folder: Where a checkpoint is saved after every round, and the results in the end.
        resume: Whether to go on where the run in ``folder`` stopped.
        title: What the data are, for reports.
    """

    def __init__(
        self,
        *,
        temperature: float = 1.0,
        epsilon: float = 1e-3,
        server_lr: float = 1.0,
        decline_after: int | None = None,
        min_participants: int = 0,
        min_replies: int = 1,
        max_update_norm: float = 1e6,
        aggregator: Aggregator | None = None,
        observe_only: bool = False,
        collect_losses: bool = False,
        privacy: Privacy | None = None,
        metric: MetricInfo = ACCURACY,
        metric_key: str | None = None,
        state_arrays: Sequence[str] | None = None,
        folder: str | Path | None = None,
        resume: bool = False,
        title: str = "a federation on Flower",
        **options: Any,
    ) -> None:
        refuse_renamed(options)
        super().__init__(**options)
        for name in ("fraction_train", "fraction_evaluate"):
            check_number(name, getattr(self, name), least=0, most=1)
        self._config = StrategyConfig(
            temperature=temperature,
            epsilon=epsilon,
            server_lr=server_lr,
            decline_after=decline_after,
            min_participants=min_participants,
            min_replies=min_replies,
            max_update_norm=max_update_norm,
            aggregator=Aggregator() if aggregator is None else aggregator,
            observe_only=observe_only,
            collect_losses=collect_losses,
            privacy=privacy,
            metric=metric,
            state_arrays=None if state_arrays is None else tuple(state_arrays),
        )
        validate(self._config, self.fraction_evaluate)
        # What is clipped need not be rejected; and who is, noise could not hide.
        max_norm = max_update_norm if privacy is None else math.inf
        self._limits = ReplyLimits(max_norm, self.weighted_by_key, needs_examples=observe_only)
        self._metric_names = MetricNames(metric_key or metric.name, self.weighted_by_key)
        self._folder_path, self._resume = None if folder is None else Path(folder), resume
        self._title = title
        self._folder: FederationFolder | None = None
        self._secagg: SecAggGrid | None = None
        self._rounds_before = 0  # those of the run that this one takes up
        # Of the round at work:
        self._model: Arrays = {}
        self._sampled: list[int] = []
        self._expected_sampled = 0
        self._evaluation_nodes: list[int] = []
        self._current: Round | None = None
        self.rng = np.random.default_rng()
        self.rounds: list[Round] = []

    @property
    def counts(self) -> dict[int, Counts]:
        """How clients answered, by round."""
        current = [] if self._current is None else [self._current]
        return {entry.number: entry.counts for entry in [*self.rounds, *current]}

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Run as Flower does, in a folder if there is one, from where it stopped if it did."""
        decline_after = self._config.decline_after
        if decline_after is not None and decline_after >= num_rounds:
            raise InputError(
                f"decline_after = {decline_after}, but there are only {num_rounds} rounds: nobody "
                f"could ever decline. Lower it, or leave it out"
            )
        training_grid = self.training_grid(grid)

        def run(arrays: ArrayRecord) -> Result:
            before = self._rounds_before
            result = super(MaxFL, self).start(
                training_grid, arrays, num_rounds - before, timeout, train_config,
                evaluate_config, _shift_rounds(evaluate_fn, before),
            )  # fmt: skip
            return _renumber_rounds(result, before)

        if self._folder_path is None:
            return run(initial_arrays)
        return self._run_in_folder(self._folder_path, run, initial_arrays, num_rounds)

    def training_grid(self, grid: Grid) -> Any:
        """Return the grid to train through: the given one, or secure aggregation on it."""
        privacy = self._config.privacy
        if privacy is None or not privacy.secure:
            return grid
        self._secagg = SecAggGrid(grid, privacy)
        return self._secagg

    def _run_in_folder(
        self, path: Path, run: Callable[[ArrayRecord], Result], start: ArrayRecord, rounds: int
    ) -> Result:
        config = self._config
        info = RunInfo(rounds, self._title, config.temperature, config.may_decline, config.metric)
        settings = describe(config, rounds, self.fraction_train, self.weighted_by_key)
        with open_federation_folder(path, settings, info, resume=self._resume) as folder:
            if folder.final_model is not None:
                log(INFO, "the run in %s is finished: nothing is left to do", path)
                return Result(arrays=_to_record(folder.final_model))
            if folder.saved is not None:
                self._model, self.rounds = folder.saved
                self._rounds_before = len(self.rounds)
                start = _to_record(self._model)
                log(INFO, "resuming after round %d of %d, from %s", len(self.rounds), rounds, path)
            self._folder = folder
            result = run(start)
            result.arrays = _to_record(self._model)
            state = TrainingState(self._model, self.rounds)
            folder.finish(state, {"privacy": self.privacy_guarantee()})
        log(INFO, "results: %s; look at them with: maxfl report %s", path, path)
        return result

    def privacy_guarantee(self) -> dict[str, Any] | None:
        """Return what is guaranteed to clients for the rounds begun so far; None if nothing is."""
        if self._config.privacy is None:
            return None
        begun = len(self.rounds) if self._folder is None else self._folder.rounds_begun
        return guarantee(self._config.privacy, self.fraction_train, begun)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the model, and what clients need to weigh and decide."""
        number = self._rounds_before + server_round
        if self._folder is not None:
            self._folder.begin_round()
        self._model = _to_arrays(arrays)
        check_state_arrays(self._config, self._model)
        config[keys.TEMPERATURE] = float(self._config.temperature)
        config[keys.MAY_DECLINE] = self._may_decline(number)
        config[keys.COLLECT_LOSSES] = self._config.collect_losses
        sample = self._sample_privately if self._config.private else super().configure_train
        messages = list(sample(number, arrays, config, grid))
        self._sampled = sorted(message.metadata.dst_node_id for message in messages)
        return messages

    def _sample_privately(
        self, number: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send messages to nodes that are drawn one by one, as the accountant takes them to be."""
        _, nodes = sample_nodes(grid, self.min_available_nodes, 0)
        sampled = poisson_sample(nodes, self.fraction_train, self.rng)
        self._expected_sampled = round(len(nodes) * self.fraction_train)
        config["server-round"] = number
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        return self._construct_messages(record, sampled, MessageType.TRAIN)

    def _may_decline(self, number: int) -> bool:
        """Return whether clients may stay away in a round."""
        config = self._config
        if config.decline_after is None or number <= config.decline_after or config.observe_only:
            return False
        before = self.counts.get(number - 1)
        if before is not None and before.participated < config.min_participants:
            log(WARNING, "only %d clients participated, fewer than min_participants = %d: nobody "
                "may decline in round %d", before.participated, config.min_participants,
                number)  # fmt: skip
            return False
        return True

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Take the step along what the good replies say; without enough of them, none."""
        # In one order, so that sums have the same bits whoever answers first.
        messages = sorted(replies, key=lambda reply: reply.metadata.src_node_id)
        sorted_replies = sort_replies(messages, self._model, self._limits)
        counts, sums = self._sum(sorted_replies, len(messages))
        events = self._events(sorted_replies, messages)
        self._begin_entry(self._rounds_before + server_round, counts, events, sorted_replies)
        app_metrics = self._app_metrics(sorted_replies, messages)
        metrics = MetricRecord({**app_metrics, **counts._asdict(), "gm-appeal": counts.gm_appeal})
        model = None
        if sums is not None:
            model = take_step(self._config.algorithm, self._config.rate_of, self._model, sums)
        if problem := self._no_step(counts, sums, model, sorted_replies):
            log(WARNING, "%s: the model stays as it was", problem)
            self._current = self._current and self._current._replace(no_step=problem)
            return None, metrics
        return None if model is None else _to_record(model), metrics

    def _sum(self, replies: SortedReplies, answered: int) -> tuple[Counts, RoundSums | None]:
        """Count and add up replies, as privately as the config says."""
        privacy, secagg = self._config.privacy, self._secagg
        if secagg is None:
            counts, sums = self._plain_sum(replies, answered)
        else:
            counts, sums = self._secure_sum(secagg)
        if privacy is None or not privacy.private:
            return counts, sums
        if sums is None:  # how many there were is not to be known
            return Counts(self._expected_sampled), None
        levels = 0 if secagg is None else secagg.result.levels
        sums = add_noise(privacy, sums, levels, self.rng)
        return estimate_counts(self._expected_sampled, sums)._replace(failed=0), sums

    def _plain_sum(self, replies: SortedReplies, answered: int) -> tuple[Counts, RoundSums | None]:
        """Count and add up the replies that the server sees."""
        privacy, by_examples = self._config.privacy, self._config.observe_only
        aggregator = self._config.aggregator if privacy is None else mean(clip_norm=privacy.clip)
        counts = count_replies(len(self._sampled), replies, answered)
        return counts, sum_updates(
            replies.accepted, counts, self._model, aggregator, by_examples=by_examples
        )

    def _secure_sum(self, secagg: SecAggGrid) -> tuple[Counts, RoundSums | None]:
        """Return the sums that secure aggregation gave, and the counts that they imply."""
        sampled, sums = len(self._sampled), secagg.result.sums
        if sums is None:
            return Counts(sampled, failed=sampled), None
        return estimate_counts(sampled, sums), sums

    def _app_metrics(self, replies: SortedReplies, messages: list[Message]) -> dict[str, Any]:
        """Return what the clients' apps say of their training, averaged as FedAvg would."""
        nodes = {reply.node for reply in replies.accepted if reply.examples > 0}
        if not nodes or self._config.privacy is not None:
            return {}
        good = [message for message in messages if message.metadata.src_node_id in nodes]
        contents = [message.content for message in with_common_metrics(good)]
        metrics = self.train_metrics_aggr_fn(contents, self.weighted_by_key)
        return {name: value for name, value in metrics.items() if name not in keys.METRICS}

    def _no_step(
        self, counts: Counts, sums: RoundSums | None, model: Arrays | None, replies: SortedReplies
    ) -> str:
        """Return why there is no step to take, "" if there is."""
        privacy, min_replies = self._config.privacy, self._config.min_replies
        if sums is None or model is None:
            return "too few clients stayed for secure sums"
        if privacy is not None and is_lost_in_noise(privacy, sums):
            return "the round's weight is lost in noise"
        if counts.participated < min_replies:
            return f"{counts.participated} good replies, fewer than {min_replies}"
        if sums.weight <= 0:
            return self._no_weight(sum(reply.weight > 0 for reply in replies.accepted))
        finite = all(np.isfinite(array).all() for array in model.values())
        return "" if finite else "the step along the replies is not finite"

    def _no_weight(self, num_weighted: int) -> str:
        """Return why good replies have no weight together, though so many of them have one."""
        aggregator = self._config.aggregator
        if aggregator.rule is AggregationRule.KRUM and num_weighted:
            limit = krum_limit(aggregator.hparams)
            return f"{num_weighted} replies with a weight, and Krum needs more than {limit}"
        return "no reply has a weight"

    def _events(self, replies: SortedReplies, messages: list[Message]) -> list[Event]:
        """Log which clients did not participate, and return that as far as it may be known."""
        events = [
            Event.of(reply.node, kind, reply.reason)
            for kind in ("declined", "failed", "rejected")
            for reply in getattr(replies, kind)
        ]
        if self._secagg is None:
            answered = {message.metadata.src_node_id for message in messages}
            events += [Event.of(node, "failed", "no answer in time")
                       for node in self._sampled if node not in answered]  # fmt: skip
        else:
            events += self._secagg.result.dropouts
        _log_events(events)
        # Who was drawn is what hides everybody; the log is for the operator alone.
        return [] if self._config.private else events

    def _begin_entry(
        self, number: int, counts: Counts, events: list[Event], replies: SortedReplies
    ) -> None:
        """Note what happened in a round's training."""
        participants = [
            Participant(reply.node, reply.weight, reply.examples) for reply in replies.accepted
        ]
        collects = self._config.collect_losses
        self._current = Round(
            number,
            counts,
            evaluation=None,
            events=events,
            sampled=self._sampled if collects else [],
            participants=participants if collects else [],
            client_evaluations=[],
        )

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the new model to be evaluated."""
        self._model = _to_arrays(arrays)
        config[keys.COLLECT_LOSSES] = self._config.collect_losses
        number = self._rounds_before + server_round
        messages = list(super().configure_evaluate(number, arrays, config, grid))
        self._evaluation_nodes = [message.metadata.dst_node_id for message in messages]
        return messages

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Average what clients say of the new model, without replies that are no good."""
        found = read_evaluations(replies, self._evaluation_nodes, self._metric_names)
        _log_events(found.events)
        metrics = super().aggregate_evaluate(server_round, found.messages)
        if metrics is not None:
            metrics.pop(keys.PARTITION, None)  # a name; its mean means nothing
        self._end_entry(found.evaluations, found.events)
        return metrics

    def _end_entry(self, evaluations: list[ClientEvaluation], events: list[Event]) -> None:
        """Note what clients say of the model after a round, and save the round."""
        if self._current is None:  # evaluated without training
            return
        entry = self._current._replace(
            evaluation=summarise_round(evaluations),
            events=[*self._current.events, *events],
            client_evaluations=evaluations if self._config.collect_losses else [],
        )
        self._current = None
        self.rounds.append(entry)
        log(INFO, format_round(entry, self._config.metric)[0])
        if self._folder is not None:
            self._folder.save(TrainingState(self._model, self.rounds))


def _log_events(events: list[Event]) -> None:
    for event in events:
        log(INFO, "\t> node %d %s: %s", event.node, event.kind, event.reason)


def _to_record(model: Arrays) -> ArrayRecord:
    return ArrayRecord({name: Array(array) for name, array in model.items()})


def _to_arrays(record: ArrayRecord) -> Arrays:
    return {name: array.numpy() for name, array in record.items()}


def _shift_rounds(evaluate_fn: EvaluateFn | None, before: int) -> EvaluateFn | None:
    """Count the rounds that a function is called with from the very first."""
    if evaluate_fn is None:
        return None
    return lambda server_round, arrays: evaluate_fn(server_round + before, arrays)


def _renumber_rounds(result: Result, before: int) -> Result:
    """Count the rounds of a result from the very first, not from where a run was taken up."""
    for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp",
                 "evaluate_metrics_serverapp"):  # fmt: skip
        by_round = getattr(result, name)
        setattr(result, name, {number + before: value for number, value in by_round.items()})
    return result
