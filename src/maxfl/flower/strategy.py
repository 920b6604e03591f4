"""The server's part: a Flower strategy that takes MaxFL's weighted step.

A subclass of Flower's FedAvg, whose sampling, evaluation and loop stay. The step is that of the
simulation: the same direction, the same temperatures, schedules and aggregators.
"""

import secrets
from collections.abc import Callable, Iterable, Sequence
from logging import INFO, WARNING
from pathlib import Path
from typing import Any, Literal

from flwr.app import (
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

from maxfl.core.aggregators import Aggregator
from maxfl.core.algorithm import Algorithm
from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.core.portfolio import Portfolio
from maxfl.core.schedules import Schedule
from maxfl.core.server_optimizers import ServerOptimizer
from maxfl.flower import keys
from maxfl.flower.aggregation import (
    Sampled,
    absences,
    add_up,
    counts_enough,
)
from maxfl.flower.config import (
    StrategyConfig,
    check_rounds,
    refuse_renamed,
    validate,
)
from maxfl.flower.evaluation import MetricNames, read_evaluations
from maxfl.flower.monitoring.extension import as_begun
from maxfl.flower.monitoring.monitor import LOOPBACK, Monitor, monitor_options
from maxfl.flower.privacy import Privacy, guarantee, poisson_sample
from maxfl.flower.replies.arrays import Arrays, check_kinds, to_record
from maxfl.flower.replies.sort import sort_replies
from maxfl.flower.round_entry import begin_entry, end_entry, log_events, train_metrics
from maxfl.flower.round_log import ClientEvaluation, Event, Round, format_round
from maxfl.flower.run_folder import (
    EvaluateFn,
    FederationFolder,
    RunInfo,
    TrainingState,
    open_federation_folder,
    renumber_rounds,
    shift_rounds,
)
from maxfl.flower.secagg_server import SecAggGrid
from maxfl.flower.secure.generator import Randomness, SecureGenerator
from maxfl.flower.server.description import describe
from maxfl.flower.server.instructions import instructions, may_clients_decline
from maxfl.flower.server.methods import AUTO, choose_algorithm
from maxfl.flower.server.offers import Offers, initial_models
from maxfl.flower.server.portfolio import begin_models
from maxfl.flower.server.step import Rates, RoundEnd, Stepped, take_step
from maxfl.flower.server.travel import Outgoing, check_names, outgoing, split_control
from maxfl.flower.solver import init_solver, next_solver, server_rate, solver_of_round
from maxfl.flower.sums import Counts
from maxfl.runs.trackers.base import OpenTracker
from maxfl.utils.errors import check_number


class MaxFL(FedAvg):
    """Cho et al., "Maximizing Global Model Appeal in Federated Learning", TMLR 2024.

    Clients need ``maxfl.flower.appeal_mod``. Options not named here are FedAvg's.

    Attributes:
        rounds: What happened in each round.
        num_rounds: How many are planned, over which η_g shrinks; ``start`` sets it.
        rng: Draws nodes and noise, where results are differentially private. Cryptographic, without
            a seed: whoever knew it could take the noise away.

    Args:
        algorithm: Another method than MaxFL, or MaxFL with numbers of its own: what
            ``maxfl.fedavg``, ``fedprox``, ``qffl``, ``scaffold``, ``maxfl``, ``maxfl_auto`` or
            ``maxfl_annealed`` returns, or its name. Clients answer and decline as ever.
        temperature: T of the weight: a number (the paper's is 1), or "auto", by which it follows
            the clients' gaps as in ``maxfl.maxfl_auto``, so that it needs no tuning.
        scale: s_0, from which on "auto" tracks the gaps, in units of the loss; by default the mean
            gap of the first round's clients, who then tell it. Noise needs it, and where clients
            may lie it keeps them from setting the temperature.
        epsilon: ε below the fraction; by default 0.1 with "auto", and 0.001 with a number.
        server_lr: η_g.
        server_schedule: η_g over the rounds, one of ``maxfl.schedules``; by default
            ``exponential(end=0.18)`` with "auto", and constant otherwise.
        server_optimizer: What takes the step, one of ``maxfl.server_optimizers``; by default plain.
        local_lr: η_l of the clients, which only q-FFL's step needs.
        decline_after: Rounds after which clients that are not satisfied may stay away; None: never.
        min_participants: If fewer clients participated, nobody may decline in the next round; by
            default 2, or all if fewer are sampled. With 0, a federation that all leave stands
            still for good.
        min_replies: With fewer good replies, the model stays as it was.
        max_update_norm: Longer updates are rejected; by default those of more than a
            hundred times the median norm of their round.
        aggregator: Clipping and robust aggregation, one of ``maxfl.aggregators``.
        observe_only: Train as FedAvg does, at a constant η_g unless a schedule is given, and only
            report appeal: to look before one switches.
        collect_losses: Ask clients for their losses and requirements too, for a report client by
            client.
        privacy: Noise, secure aggregation or both.
        metric: What clients measure of the model on their test data, for the report.
        metric_key: What the clients' apps call it; by default by its name.
        state_arrays: Patterns for names of arrays that no gradient trains, such as "*.running_*" of
            PyTorch: they are averaged, whatever η_g is. By default "state.*", of
            ``maxfl.Variables``.
        trained_arrays: Patterns for names of the arrays that clients train: only these travel, and
            nodes have the others already. By default all.
        portfolio: Several global models, of which each client uses the one that suits it:
            ``maxfl.portfolio(models=3)``. ``start`` then takes a list of initial models.
        portfolio_message: "all" sends all models in every round, "picked" only the one that a
            client reported last.
        portfolio_after: With "picked": rounds at the beginning with all models.
        portfolio_refresh: With "picked": of so many rounds after those, the last has all models.
        folder: Where a checkpoint is saved after every round, and the results in the end.
        resume: Whether to go on where the run in ``folder`` stopped, or where it ended, if there
            are to be more rounds than it had.
        keep: Models of so many last rounds stay in the folder, for ``maxfl flower rollback``.
        audit: Whether the results say who weighed how much in which round. With ``privacy``, they
            never do.
        trackers: "tensorboard", "mlflow" or "wandb", or functions that open a tracker.
        metrics_port: Where Prometheus finds metrics while the run is at work; 0 for any free port.
        metrics_host: The address to listen on; by default only this machine is answered.
        title: What the data are, for reports.
    """

    def __init__(
        self,
        *,
        algorithm: Algorithm | str | None = None,
        temperature: float | Literal["auto"] = AUTO,
        scale: float | None = None,
        epsilon: float | None = None,
        server_lr: float = 1.0,
        server_schedule: Schedule | None = None,
        server_optimizer: ServerOptimizer | None = None,
        local_lr: float | None = None,
        decline_after: int | None = None,
        min_participants: int | None = None,
        min_replies: int = 1,
        max_update_norm: float | None = None,
        aggregator: Aggregator | None = None,
        observe_only: bool = False,
        collect_losses: bool = False,
        privacy: Privacy | None = None,
        metric: MetricInfo = ACCURACY,
        metric_key: str | None = None,
        state_arrays: Sequence[str] | None = None,
        trained_arrays: Sequence[str] | None = None,
        portfolio: Portfolio | None = None,
        portfolio_message: Literal["all", "picked"] = "all",
        portfolio_after: int = 3,
        portfolio_refresh: int = 10,
        folder: str | Path | None = None,
        resume: bool = False,
        keep: int = 0,
        audit: bool = True,
        trackers: Sequence[str | OpenTracker] = (),
        metrics_port: int | None = None,
        metrics_host: str = LOOPBACK,
        title: str = "a federation on Flower",
        **options: Any,
    ) -> None:
        refuse_renamed(options)
        super().__init__(**options)
        for name in ("fraction_train", "fraction_evaluate"):
            check_number(name, getattr(self, name), least=0, most=1)
        self._config = StrategyConfig(
            algorithm=choose_algorithm(algorithm, temperature, scale, epsilon),
            server_lr=server_lr,
            server_schedule=server_schedule,
            decline_after=decline_after,
            min_participants=min_participants,
            min_replies=min_replies,
            max_update_norm=max_update_norm,
            aggregator=Aggregator() if aggregator is None else aggregator,
            observe_only=observe_only,
            collect_losses=collect_losses,
            privacy=privacy,
            metric=metric,
            state_arrays=check_names("state_arrays", state_arrays),
            trained_arrays=check_names("trained_arrays", trained_arrays),
            server_optimizer=ServerOptimizer() if server_optimizer is None else server_optimizer,
            local_lr=local_lr,
            portfolio=Portfolio() if portfolio is None else portfolio,
            offers=Offers(portfolio_message, portfolio_after, portfolio_refresh),
        )
        validate(self._config, self.fraction_evaluate)
        self._metric_names = MetricNames(metric_key or metric.name, self.weighted_by_key)
        self._folder_path, self._resume = None if folder is None else Path(folder), resume
        self._title = title
        self._audits = audit and privacy is None
        self._monitored = monitor_options(
            keep, trackers, metrics_port, metrics_host, has_folder=folder is not None
        )
        self._monitor = Monitor(self._monitored, metric)
        self._folder: FederationFolder | None = None
        self._secagg: SecAggGrid | None = None
        self._rounds_before = 0  # those of the run that this one takes up
        self._solver = init_solver(self._config)
        self._moments: Arrays = {}  # of the server's optimizer
        self._models = begin_models(self._config)
        # SCAFFOLD's c; nodes keep c_k for as long as this server is at work.
        self._control: Arrays = {}
        self._control_run = secrets.randbits(62)
        # Of the round at work:
        self._outgoing = Outgoing(ArrayRecord(), {}, {})
        self._clients = 0
        self._rate = server_lr
        self._sampled: list[int] = []
        self._expected_sampled = 0
        self._evaluation_nodes: list[int] = []
        self._current: Round | None = None
        self.rng: Randomness = SecureGenerator()
        self.rounds: list[Round] = []
        self.num_rounds: int | None = None

    @property
    def counts(self) -> dict[int, Counts]:
        """How clients answered, by round."""
        current = [] if self._current is None else [self._current]
        return {entry.number: entry.counts for entry in [*self.rounds, *current]}

    @property
    def _state(self) -> TrainingState:
        """What a run goes on from."""
        return TrainingState(
            self._outgoing.model, self.rounds, self._solver, self._moments, self._models.known
        )

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | Sequence[ArrayRecord],
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Run as Flower does, in a folder if there is one, from where it stopped if it did.

        Of a portfolio ``initial_arrays`` is a list of models; the result's arrays, and those that
        ``evaluate_fn`` gets, have a leading axis [models] (``maxfl.flower.split_models``).
        """
        check_rounds(self._config, num_rounds)
        start = initial_models(self._config.models, initial_arrays)
        # A model that can't be trained leaves no folder behind.
        check_kinds(outgoing(self._config, start).sent, secure=self._config.privacy is not None)
        self.num_rounds = num_rounds
        training_grid = self.training_grid(grid)

        def run(arrays: ArrayRecord) -> Result:
            before = self._rounds_before
            result = super(MaxFL, self).start(
                training_grid, arrays, num_rounds - before, timeout, train_config,
                evaluate_config, shift_rounds(evaluate_fn, before),
            )  # fmt: skip
            return renumber_rounds(result, before)

        with self._monitor.watching(num_rounds):
            path = self._folder_path
            result = (
                run(start) if path is None else self._run_in_folder(path, run, start, num_rounds)
            )
        self._monitor.warn(self.rounds)
        return result

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
        if self._resume:
            self._config = as_begun(self._config, path)
        config, (keep, trackers, *_) = self._config, self._monitored
        info = RunInfo(
            rounds, self._title, config.may_decline, config.metric, keep, trackers,
            audit=self._audits, by_examples=config.by_examples,
        )  # fmt: skip
        settings = describe(config, rounds, self.fraction_train, self.weighted_by_key)
        with open_federation_folder(path, settings, info, resume=self._resume) as folder:
            if folder.final_model is not None:
                log(INFO, "the run in %s is finished: nothing is left to do", path)
                return Result(arrays=to_record(folder.final_model))
            if folder.saved is not None:
                model, self.rounds, self._solver, self._moments, known = folder.saved
                self._models.known = known
                self._rounds_before = len(self.rounds)
                start = to_record(model)
                log(INFO, "resuming after round %d of %d, from %s", len(self.rounds), rounds, path)
                self._monitor.begin(self.rounds)
            self._folder = folder
            self._outgoing = outgoing(config, start)
            result = run(start)
            result.arrays = self._outgoing.received
            temperature = solver_of_round(config, self._solver).temperature
            folder.finish(self._state, temperature, {"privacy": self.privacy_guarantee()})
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
        arrays, self._moments = self._models.begin_round(arrays, self._moments)
        self._outgoing = outgoing(self._config, arrays, self._control)
        check_kinds(self._outgoing.sent, secure=self._config.privacy is not None)
        self._rate = server_rate(self._config, number, self.num_rounds, self._solver)
        solver = solver_of_round(self._config, self._solver)
        declines = may_clients_decline(self._config, number, self.counts.get(number - 1))
        for key in (keys.VACANT, keys.DONOR):  # of an earlier round: Flower's config stays
            config.pop(key, None)
        sent_along = instructions(self._config, solver, may_decline=declines)
        for key, value in (sent_along | self._models.instructions(training=True)).items():
            config[key] = value
        if self._config.corrects_drift:
            config[keys.CONTROL_RUN] = self._control_run
        sample = self._sample_privately if self._config.private else super().configure_train
        messages = list(sample(number, self._outgoing.record, config, grid))
        messages = self._models.address(messages, number, self._outgoing.sent)
        self._sampled = sorted(message.metadata.dst_node_id for message in messages)
        if self._config.corrects_drift:  # counted now that sampling has waited for them
            self._clients = max(len(list(grid.get_node_ids())), len(messages))
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

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Take the step along what the good replies say; without enough of them, none."""
        # In one order, so that sums have the same bits whoever answers first.
        messages = sorted(replies, key=lambda reply: reply.metadata.src_node_id)
        solver = solver_of_round(self._config, self._solver)
        limits = self._config.reply_limits(
            self.weighted_by_key, needs_gap=solver.asks_gaps, offered=self._models.offered
        )
        asked = set(self._sampled)
        sorted_replies = sort_replies(messages, asked, self._outgoing.sent, limits)
        answered = asked & {message.metadata.src_node_id for message in messages}
        sampled = Sampled(self._sampled, self._expected_sampled, answered, solver)
        secure = None if self._secagg is None else self._secagg.result
        sent = self._outgoing.sent
        total = add_up(self._config, sent, sampled, sorted_replies, secure, self.rng)
        counts, events = total.counts, absences(sampled, sorted_replies, secure)
        log_events(events)
        self._current = begin_entry(
            self._config, self._rounds_before + server_round, sampled, total, events,
            sorted_replies, audits=self._audits,
        )  # fmt: skip
        average, key = self.train_metrics_aggr_fn, self.weighted_by_key
        metrics = train_metrics(self._config, messages, sorted_replies, total, average, key)
        rates = Rates(self._rate, control=counts.participated / max(self._clients, 1))
        end = RoundEnd(sent, total, self._moments, sorted_replies)
        stepped, problem = take_step(self._config, rates, end)
        enough = counts_enough(self._config, total)
        if enough:
            # Without a step too: where T is so small that no weight is left, s must rise.
            self._solver = next_solver(self._config, self._solver, total)
        self._models.note_training(total, sorted_replies.accepted, counts_enough=enough)
        if problem:
            log(WARNING, "%s: the model stays as it was", problem)
            self._current = self._current and self._current._replace(no_step=problem)
        if stepped is None:
            # A model that starts anew does so without a step too.
            return self._outgoing.received if self._config.has_portfolio else None, metrics
        return self._take_step(stepped), metrics

    def _take_step(self, stepped: Stepped) -> ArrayRecord:
        """Keep what the server keeps after a step, and return the new model."""
        moved, self._control = split_control(stepped.arrays)
        self._moments = stepped.moments
        return self._outgoing.after(moved)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the new model to be evaluated."""
        self._outgoing = outgoing(self._config, arrays)
        config[keys.COLLECT_LOSSES] = self._config.collect_losses
        number = self._rounds_before + server_round
        config.update(self._models.instructions(training=False))
        messages = list(super().configure_evaluate(number, self._outgoing.record, config, grid))
        messages = self._models.address(messages, number, self._outgoing.sent)
        self._evaluation_nodes = [message.metadata.dst_node_id for message in messages]
        return messages

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Average what clients say of the new model, without replies that are no good."""
        found = read_evaluations(
            replies, self._evaluation_nodes, self._metric_names, self._models.offered
        )
        self._models.note_evaluation(found.evaluations)
        log_events(found.events)
        metrics = super().aggregate_evaluate(server_round, found.messages)
        if metrics is not None:
            for name in (keys.PARTITION, keys.MODEL):  # their means mean nothing
                metrics.pop(name, None)
        self._end_entry(found.evaluations, found.events)
        return metrics

    def _end_entry(self, evaluations: list[ClientEvaluation], events: list[Event]) -> None:
        """Note what clients say of the model after a round, and save the round."""
        if self._current is None:  # evaluated without training
            return
        entry = end_entry(self._config, self._current, evaluations, events)
        self._current = None
        self.rounds.append(entry)
        log(INFO, format_round(entry, self._config.metric)[0])
        if self._folder is not None:
            self._folder.save(self._state)
        self._monitor.note(self.rounds)
