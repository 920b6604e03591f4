"""The server's part: a Flower strategy that takes MaxFL's weighted step.

A subclass of Flower's FedAvg, whose sampling, evaluation and loop stay. The step is that of the
simulation: the same direction, the same robust rules.
"""

import math
from collections.abc import Iterable
from logging import INFO, WARNING
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from maxfl.algorithms import maxfl
from maxfl.algorithms.contract import Cohort, Server, Total
from maxfl.errors import InputError, check_number
from maxfl.flower import terms
from maxfl.flower.replies import Accepted, Arrays, Sorted, sort_replies
from maxfl.robust import Robust, Rule, clip_norm, combine


class Counts(NamedTuple):
    """How clients answered in a round.

    Attributes:
        asked: Messages that were sent.
        took_part: Replies that counted.
        satisfied: Of those, clients whose requirement the model met.
        declined: Clients that stayed away because it did not.
        failed: Errors, and clients that did not answer in time.
        rejected: Replies that were no good.
    """

    asked: int
    took_part: int
    satisfied: int
    declined: int
    failed: int
    rejected: int

    @property
    def gm_appeal(self) -> float:
        """Share of satisfied clients among those that said whether they are; NaN without any."""
        told = self.took_part + self.declined
        return self.satisfied / told if told else math.nan


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
        largest_norm: Longer updates are rejected, if it is given.
        robust: Clipping and robust aggregation, ``maxfl.robust``'s.
        observe: Train as FedAvg does, and only report appeal: to look before one switches.
        reveal: Ask clients for their losses and requirements too.
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
        largest_norm: float | None = None,
        robust: Robust | None = None,
        observe: bool = False,
        reveal: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        check_number("server_lr", server_lr, above=0)
        check_number("floor", floor, least=0, whole=True)
        check_number("least_replies", least_replies, least=1, whole=True)
        if largest_norm is not None:
            check_number("largest_norm", largest_norm, above=0)
        if decline_after is not None:
            check_number("decline_after", decline_after, least=0, whole=True)
        self._algorithm = maxfl(temperature, epsilon)
        self._server_lr, self._decline_after, self._floor = server_lr, decline_after, floor
        self._least_replies = least_replies
        self._largest_norm = math.inf if largest_norm is None else largest_norm
        self._robust = robust or Robust()
        self._observe, self._reveal = observe, reveal
        self._model: Arrays = {}
        self._asked = 0
        self.counts: dict[int, Counts] = {}
        """By round."""

    def start(self, *args: Any, **options: Any) -> Any:
        """Run as Flower does, once the settings fit the number of rounds."""
        rounds = options.get("num_rounds", args[2] if len(args) > 2 else 3)
        if self._decline_after is not None and self._decline_after >= rounds:
            raise InputError(
                f"decline_after = {self._decline_after}, but there are only {rounds} rounds: "
                f"nobody could ever decline. Lower it, or leave it out"
            )
        return super().start(*args, **options)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the model, and what clients need to weigh and decide."""
        self._model = {name: array.numpy() for name, array in arrays.items()}
        config[terms.TEMPERATURE] = float(self._algorithm.hyper.temperature)
        config[terms.MAY_DECLINE] = self._may_decline(server_round)
        config[terms.REVEAL] = self._reveal
        messages = list(super().configure_train(server_round, arrays, config, grid))
        self._asked = len(messages)
        return messages

    def _may_decline(self, server_round: int) -> bool:
        if self._decline_after is None or server_round <= self._decline_after or self._observe:
            return False
        before = self.counts.get(server_round - 1)
        if before is not None and before.took_part < self._floor:
            log(WARNING, "only %d clients took part, fewer than the floor of %d: nobody may "
                "decline in round %d", before.took_part, self._floor, server_round)  # fmt: skip
            return False
        return True

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Take the step along what the good replies say; without enough of them, none."""
        every = list(replies)
        found = sort_replies(every, self._model, self._largest_norm)
        counts = self._count(server_round, found, len(every))
        for kind, refusals in (("declined", found.declined), ("failed", found.failed),
                               ("was rejected", found.rejected)):  # fmt: skip
            for refusal in refusals:
                log(INFO, "\t> node %d %s: %s", refusal.node, kind, refusal.why)
        metrics = MetricRecord({**counts._asdict(), "gm-appeal": counts.gm_appeal})
        if counts.took_part < self._least_replies:
            log(WARNING, "round %d: %d good replies, fewer than %d: the model stays as it was",
                server_round, counts.took_part, self._least_replies)  # fmt: skip
            return None, metrics
        if self._observe:
            good = {own.node for own in found.accepted}
            plain = [reply for reply in every if reply.metadata.src_node_id in good]
            arrays, _ = super().aggregate_train(server_round, plain)
            return arrays, metrics
        return self._step(found.accepted), metrics

    def _count(self, server_round: int, found: Sorted, replies: int) -> Counts:
        silent = max(0, self._asked - replies)
        counts = Counts(
            self._asked,
            len(found.accepted),
            sum(own.satisfied for own in found.accepted),
            len(found.declined),
            len(found.failed) + silent,
            len(found.rejected),
        )
        self.counts[server_round] = counts
        return counts

    def _step(self, accepted: list[Accepted]) -> ArrayRecord:
        """W ← w − η_g · Σ q_k Δ_k / (Σ q_k + ε), as the simulation takes it."""
        total = self._total(accepted)
        server = Server(self._model, ())
        direction, _ = self._algorithm.server(self._algorithm.hyper, server, total, _NOBODY)
        return ArrayRecord({
            name: Array(np.asarray(w - self._server_lr * np.asarray(direction[name]), w.dtype))
            for name, w in self._model.items()
        })  # fmt: skip

    def _total(self, accepted: list[Accepted]) -> Total:
        """Σ q_k Δ_k and Σ q_k, of clipped updates, by the robust rule."""
        limits, rule = self._robust.limits, self._robust.rule
        updates = [own.update for own in accepted]
        if self._robust.clips:
            updates = [clip_norm(update, limits.clip) for update in updates]
        weights = np.array([own.weight for own in accepted], np.float32)
        if rule is not Rule.MEAN:
            stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *updates)
            return combine(rule, limits, stacked, jnp.asarray(weights))
        weighted = [jax.tree.map(lambda u, q=q: q * u, update)
                    for q, update in zip(weights, updates, strict=True)]  # fmt: skip
        return Total(jax.tree.map(lambda *leaves: sum(leaves), *weighted), weights.sum())


_NOBODY = Cohort((), (), (), (), ())  # type: ignore[arg-type]
"""MaxFL's server looks at sums alone."""
