"""The server's part: a Flower strategy that takes MaxFL's weighted step.

A subclass of Flower's FedAvg, whose sampling, evaluation and loop stay. The step is that of the
simulation: the same direction, the same robust rules.
"""

import math
from collections.abc import Callable, Iterable
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

import jax.numpy as jnp
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

from maxfl.core.aggregators import Robust, mean
from maxfl.core.algorithm import Cohort, Server, Total
from maxfl.flower import keys, privacy, run_folder
from maxfl.flower.config import Choices, check, describe
from maxfl.flower.evaluation import Names, evaluated, hear, most_alike
from maxfl.flower.privacy import Privacy
from maxfl.flower.replies import Arrays, Limits, Sorted, sort_replies
from maxfl.flower.round_log import Event, Joined, Opinion, Round, lines_of
from maxfl.flower.secagg_server import SecureGrid
from maxfl.flower.sums import Counts, Tally, add_up, count, estimated
from maxfl.utils.errors import InputError, check_number

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


class MaxFL(FedAvg):
    """Cho et al., "Maximizing Global Model Appeal in Federated Learning", TMLR 2024.

    Clients need ``maxfl.flower.appeal_mod``. Options not named here are FedAvg's.

    Args:
        temperature: T of the weight.
        epsilon: ε below the fraction.
        server_lr: η_g.
        decline_after: Rounds after which clients that are not satisfied may stay away; None: never.
        floor: If fewer clients than this took part, nobody may decline in the next round.
        least_replies: With fewer good replies, the model stays as it was.
        largest_norm: Longer updates are rejected.
        robust: Clipping and robust aggregation, ``maxfl.aggregators``'s.
        observe: Train as FedAvg does, and only report appeal: to look before one switches.
        reveal: Ask clients for their losses and requirements too, for a report client by client.
        privacy: Noise, secure aggregation or both.
        accuracy_key: What the clients' apps call their test accuracy.
        folder: Where a checkpoint is kept after every round, and the results in the end.
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
        floor: int = 0,
        least_replies: int = 1,
        largest_norm: float = 1e6,
        robust: Robust | None = None,
        observe: bool = False,
        reveal: bool = False,
        privacy: Privacy | None = None,
        accuracy_key: str = "accuracy",
        folder: str | Path | None = None,
        resume: bool = False,
        title: str = "a federation on Flower",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        for name in ("fraction_train", "fraction_evaluate"):
            check_number(name, getattr(self, name), least=0, most=1)
        self._own = Choices(
            temperature, epsilon, server_lr, decline_after, floor, least_replies, largest_norm,
            Robust() if robust is None else robust, observe, reveal, privacy,
        )  # fmt: skip
        check(self._own, self.fraction_evaluate)
        # What is clipped need not be rejected; and who is, noise could not hide.
        longest = largest_norm if privacy is None else math.inf
        self._limits = Limits(longest, self.weighted_by_key, observe)
        self._accuracy_key, self._title = accuracy_key, title
        self._folder, self._resume = None if folder is None else Path(folder), resume
        # Not from a seed: whoever knew it could take the noise away.
        self._rng = np.random.default_rng()
        self._model: Arrays = {}
        self._asked: list[int] = []
        self._to_be_heard: list[int] = []
        self._expected = 0
        self._first = 0
        self._secure: SecureGrid | None = None
        self._keeper: run_folder.Keeper | None = None
        self._now: Round | None = None
        self.rounds: list[Round] = []
        """What happened in each."""

    @property
    def counts(self) -> dict[int, Counts]:
        """How clients answered, by round."""
        now = [] if self._now is None else [self._now]
        return {own.number: own.counts for own in [*self.rounds, *now]}

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
        start = self._own.decline_after
        if start is not None and start >= num_rounds:
            raise InputError(
                f"decline_after = {start}, but there are only {num_rounds} rounds: nobody could "
                f"ever decline. Lower it, or leave it out"
            )
        if self._own.privacy is not None and self._own.privacy.secure:
            self._secure = SecureGrid(grid, self._own.privacy)

        through: Any = grid if self._secure is None else self._secure

        def run(arrays: ArrayRecord) -> Result:
            evaluate = _shifted(evaluate_fn, self._first)
            left = num_rounds - self._first
            result = super(MaxFL, self).start(
                through, arrays, left, timeout, train_config, evaluate_config, evaluate
            )
            return _renumbered(result, self._first)

        if self._folder is None:
            return run(initial_arrays)
        return self._run_in_folder(self._folder, run, initial_arrays, num_rounds)

    def _run_in_folder(
        self, folder: Path, run: Callable[[ArrayRecord], Result], start: ArrayRecord, rounds: int
    ) -> Result:
        own = self._own
        settings = run_folder.Settings(rounds, self._title, own.temperature, own.lets_decline)
        description = describe(own, rounds, self.fraction_train, self.weighted_by_key)
        with run_folder.kept_in(folder, description, settings, resume=self._resume) as keeper:
            if keeper.finished is not None:
                log(INFO, "the run in %s is finished: nothing is left to do", folder)
                return Result(arrays=_record(keeper.finished))
            if keeper.before is not None:
                self.rounds, self._first = keeper.before.rounds, len(keeper.before.rounds)
                self._model = keeper.before.model
                start = _record(self._model)
                log(INFO, "going on after round %d of %d, from %s", self._first, rounds, folder)
            self._keeper = keeper
            result = run(start)
            result.arrays = _record(self._model)
            keeper.finish(run_folder.Kept(self._model, self.rounds), {"privacy": self._guarantee()})
        log(INFO, "results: %s; look at them with: maxfl report %s", folder, folder)
        return result

    def _guarantee(self) -> dict[str, Any] | None:
        """What was guaranteed to clients, for the rounds that were begun."""
        own = self._own.privacy
        begun = len(self.rounds) if self._keeper is None else self._keeper.begun
        return None if own is None else privacy.guarantee(own, self.fraction_train, begun)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the model, and what clients need to weigh and decide."""
        number = self._first + server_round
        if self._keeper is not None:
            self._keeper.begin()
        self._model = {name: array.numpy() for name, array in arrays.items()}
        config[keys.TEMPERATURE] = float(self._own.temperature)
        config[keys.MAY_DECLINE] = self._may_decline(number)
        config[keys.REVEAL] = self._own.reveal
        draw = self._draw if self._own.private else super().configure_train
        messages = list(draw(number, arrays, config, grid))
        self._asked = sorted(message.metadata.dst_node_id for message in messages)
        return messages

    def _draw(
        self, number: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Messages to nodes that are drawn one by one, as the accountant takes them to be."""
        _, nodes = sample_nodes(grid, self.min_available_nodes, 0)
        drawn = privacy.draw(nodes, self.fraction_train, self._rng)
        self._expected = round(len(nodes) * self.fraction_train)
        config["server-round"] = number
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        return self._construct_messages(record, drawn, MessageType.TRAIN)

    def _may_decline(self, number: int) -> bool:
        start = self._own.decline_after
        if start is None or number <= start or self._own.observe:
            return False
        before = self.counts.get(number - 1)
        if before is not None and before.took_part < self._own.floor:
            log(WARNING, "only %d clients took part, fewer than the floor of %d: nobody may "
                "decline in round %d", before.took_part, self._own.floor, number)  # fmt: skip
            return False
        return True

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Take the step along what the good replies say; without enough of them, none."""
        # In one order, so that sums have the same bits whoever answers first.
        every = sorted(replies, key=lambda reply: reply.metadata.src_node_id)
        found = sort_replies(every, self._model, self._limits)
        counts, sums = self._added_up(found, len(every))
        self._note(self._first + server_round, counts, found, every)
        told = self._told(found, every)
        metrics = MetricRecord({**told, **counts._asdict(), "gm-appeal": counts.gm_appeal})
        new = None if sums is None else self._step(sums)
        if why := self._unfit(counts, sums, new):
            log(WARNING, "%s: the model stays as it was", why)
            return None, metrics
        return None if new is None else _record(new), metrics

    def _added_up(self, found: Sorted, replies: int) -> tuple[Counts, Tally | None]:
        """How clients answered, and the sums over them, both as private as is wanted."""
        asked, own = len(self._asked), self._own.privacy
        if self._secure is not None:
            sums, levels, _ = self._secure.tally
            counts = Counts(asked, 0, 0, 0, asked, 0) if sums is None else estimated(asked, sums)
        else:
            levels, counts = 0, count(asked, found, replies)
            clip = self._own.robust if own is None else mean(clip=own.clip)
            sums = add_up(found.accepted, counts, self._model, clip, by_examples=self._own.observe)
        if own is None or not own.private:
            return counts, sums
        if sums is None:  # how many there were is not to be known
            return Counts(self._expected, 0, 0, 0, 0, 0), None
        sums = privacy.add_noise(own, sums, levels, self._rng)
        return estimated(self._expected, sums)._replace(failed=0), sums

    def _told(self, found: Sorted, replies: list[Message]) -> dict[str, Any]:
        """What the clients' apps tell of their training, averaged as FedAvg would."""
        known = {own.node for own in found.accepted if own.examples > 0}
        if not known or self._own.privacy is not None:
            return {}
        good = most_alike([own for own in replies if own.metadata.src_node_id in known])
        contents = [own.content for own in good]
        told = self.train_metrics_aggr_fn(contents, self.weighted_by_key)
        return {name: value for name, value in told.items() if name not in keys.OURS}

    def _unfit(self, counts: Counts, sums: Tally | None, new: Arrays | None) -> str:
        """Why there is no step to take, "" if there is."""
        if sums is None or new is None:
            return "too few clients stayed for secure sums"
        if self._own.privacy is not None and privacy.lost_in_noise(self._own.privacy, sums):
            return "the round's weight is lost in noise"
        if counts.took_part < self._own.least_replies:
            return f"{counts.took_part} good replies, fewer than {self._own.least_replies}"
        finite = all(np.isfinite(array).all() for array in new.values())
        return "" if finite else "the step along the replies is not finite"

    def _note(self, number: int, counts: Counts, found: Sorted, replies: list[Message]) -> None:
        """Keep what happened in a round's training, and log who did not take part."""
        groups = {"declined": found.declined, "failed": found.failed, "rejected": found.rejected}
        events = [Event.of(own.node, kind, own.why) for kind, every in groups.items()
                  for own in every]  # fmt: skip
        answered = {reply.metadata.src_node_id for reply in replies}
        if self._secure is None:
            events += [Event.of(node, "failed", "no answer in time")
                       for node in self._asked if node not in answered]  # fmt: skip
        else:
            events += self._secure.tally.lost
        for own in events:
            log(INFO, "\t> node %d %s: %s", *own)
        if self._own.private:
            events = []  # who was drawn is what hides everybody; the log is for the operator alone
        joined = [Joined(own.node, own.weight, own.examples) for own in found.accepted]
        asked = self._asked if self._own.reveal else []
        self._now = Round(
            number, counts, None, events, asked, joined if self._own.reveal else [], []
        )

    def _step(self, sums: Tally) -> Arrays:
        """W ← w − η_g · Σ q_k Δ_k / (Σ q_k + ε), as the simulation takes it."""
        server = Server(self._model, ())
        total = Total(sums.weighted, jnp.float32(sums.weight))
        algorithm = self._own.algorithm
        direction, _ = algorithm.server(algorithm.hyper, server, total, _NOBODY)
        with np.errstate(over="ignore", invalid="ignore"):  # _unfit looks for it
            return {
                name: np.asarray(w - self._own.server_lr * np.asarray(direction[name]), w.dtype)
                for name, w in self._model.items()
            }

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the new model to be judged."""
        self._model = {name: array.numpy() for name, array in arrays.items()}
        config[keys.REVEAL] = self._own.reveal
        number = self._first + server_round
        messages = list(super().configure_evaluate(number, arrays, config, grid))
        self._to_be_heard = [message.metadata.dst_node_id for message in messages]
        return messages

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """What clients say of the new model, without those whose words are no good."""
        names = Names(self._accuracy_key, self.weighted_by_key)
        opinions, good, events = hear(replies, self._to_be_heard, names)
        for event in events:
            log(INFO, "\t> node %d %s: %s", *event)
        metrics = super().aggregate_evaluate(server_round, good)
        if metrics is not None:
            metrics.pop(keys.PARTITION, None)  # a name; its mean means nothing
        self._end(opinions, events)
        return metrics

    def _end(self, opinions: list[Opinion], events: list[Event]) -> None:
        """A round is over: tell, and keep."""
        if self._now is None:  # evaluated without training
            return
        self.rounds.append(self._now._replace(
            evaluated=evaluated(opinions),
            opinions=opinions if self._own.reveal else [],
            events=[*self._now.events, *events],
        ))  # fmt: skip
        self._now = None
        log(INFO, lines_of(self.rounds[-1])[0])
        if self._keeper is not None:
            self._keeper.save(run_folder.Kept(self._model, self.rounds))


def _record(model: Arrays) -> ArrayRecord:
    return ArrayRecord({name: Array(array) for name, array in model.items()})


def _shifted(evaluate_fn: EvaluateFn | None, first: int) -> EvaluateFn | None:
    if evaluate_fn is None:
        return None
    return lambda server_round, arrays: evaluate_fn(server_round + first, arrays)


def _renumbered(result: Result, first: int) -> Result:
    """Rounds counted from the very first, not from where a run was taken up."""
    for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp",
                 "evaluate_metrics_serverapp"):  # fmt: skip
        kept = getattr(result, name)
        setattr(result, name, {number + first: own for number, own in kept.items()})
    return result


_NOBODY = Cohort((), (), (), (), ())  # type: ignore[arg-type]
"""MaxFL's server looks at sums alone."""
