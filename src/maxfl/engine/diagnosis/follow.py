"""What goes wrong in a run without an error: models that stand still or diverge, bad solo models.

Followed block by block, so that it is said while the run goes on.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.aggregators import AggregationRule, krum_limit
from maxfl.core.federation import Federation
from maxfl.core.requirements.thresholds import needs_solo
from maxfl.engine.session import Session
from maxfl.engine.state import Block
from maxfl.utils.display import named
from maxfl.utils.errors import TrainingWarning

NEGLIGIBLE = 1e-7
"""A step below this share of the model's length is lost in the rounding of float32."""
NO_WEIGHT = 1e-6
"""Larger weights are not why a model stands still."""
MANY_ROUNDS = 10
"""Rounds in which a model may stand still before it is said."""
WORSE_FACTOR = 1.2
"""Times the untrained model's loss, the client's or the mean: two fresh models differ by chance."""
UNLUCKY = 0.1
"""Share of clients whose solo model may do badly on the few samples that they hold out."""


class Finding(NamedTuple):
    """Something that went wrong: a word for machines, a sentence for people."""

    kind: str
    text: str


class Stretch(NamedTuple):
    """Rounds in which clients participated and the model stood still.

    Attributes:
        first: The first of them, from 1.
        last: The last of them.
        rounds: How many.
        largest_weight: That any client had in them.
        gaps: Smallest and largest |F_k − ρ_k| of honest seen clients, when it was last measured.
        all_met: Whether the requirements of all these were met then.
    """

    first: int
    last: int
    rounds: int
    largest_weight: float
    gaps: tuple[float, float]
    all_met: bool


class Diagnosis:
    """Follows a run.

    Args:
        session: The experiment on its devices.
        federation: The clients that evaluate the model.
        is_byzantine: Which of them are Byzantine, bool[C, K].
        solo_loss: Judging losses of their solo models, float32[C, K].
        requirement: ρ of each, float32[C, K].
    """

    def __init__(
        self,
        session: Session,
        federation: Federation,
        is_byzantine: NDArray[np.bool_],
        solo_loss: Any,
        requirement: Any,
    ) -> None:
        self._session, self._federation = session, federation
        self._honest, self._solo_loss = ~is_byzantine, np.asarray(solo_loss)
        self._bound = session.spec.criterion.bound(np.asarray(requirement))
        count = session.configurations
        self._hparams = session.narrow(session.hparams)
        self._rounds = 0
        self._now: list[Stretch | None] = [None] * count
        self._longest: list[Stretch | None] = [None] * count
        self._idle = np.zeros(count, np.int64)
        self._has_worked = np.zeros(count, bool)
        self._has_sampled = np.zeros(count, bool)
        self._too_few = np.zeros(count, np.int64)
        self._diverged_from = np.full(count, -1)
        self._bad_solo: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * count
        self._said: set[tuple[int, str]] = set()

    def follow(self, block: Block) -> list[str]:
        """Take note of one more block, and return what is new in it, in words."""
        self._watch_losses(block)
        self._watch_steps(block)
        findings = self.findings()
        new: dict[str, list[Finding]] = {}
        for c, found in enumerate(findings):
            for finding in found:
                if (c, finding.kind) not in self._said:
                    self._said.add((c, finding.kind))
                    new.setdefault(finding.kind, []).append(finding)
        total = len(findings)
        among = {kind: f"{len(found)} of {total} configurations: " for kind, found in new.items()}
        return [f"{among[kind] if total > 1 else ''}{found[0].text}" for kind, found in new.items()]

    def warn(self, block: Block) -> list[str]:
        """Follow one more block, and give a ``TrainingWarning`` of what is new in it."""
        new = self.follow(block)
        for text in new:
            warnings.warn(text, TrainingWarning, stacklevel=4)
        return new

    def findings(self) -> list[list[Finding]]:
        """Return all that was found so far, of each configuration."""
        return [
            [
                *self._diverged(c),
                *self._unreliable_requirements(c),
                *self._trained_nothing(c),
                *self._stood_still(c),
                *self._undecided(c),
            ]
            for c in range(len(self._now))
        ]

    def _watch_losses(self, block: Block) -> None:
        """Look at the losses: whether they are finite, and at first what solo models gain."""
        honest = self._honest
        losses = np.asarray(block.evaluation.judging_loss)
        finite = (np.isfinite(losses) | ~honest[:, None]).all(2)
        for c, e in zip(*np.nonzero(~finite), strict=True):
            if self._diverged_from[c] < 0:
                self._diverged_from[c] = block.rounds[e]
        if block.rounds[0] == 0:
            with np.errstate(invalid="ignore"):
                untrained = np.maximum(losses[:, 0], losses[:, 0].mean(1, keepdims=True))
            bad = ~(self._solo_loss <= WORSE_FACTOR * untrained) & honest & np.isfinite(untrained)
            self._bad_solo = [np.flatnonzero(row) for row in bad]
        with np.errstate(invalid="ignore"):
            self._gaps = self._costs(block)[:, -1] - self._bound

    def _costs(self, block: Block) -> Any:
        """Return what requirements are about, less being better, float32[C, P, K]."""
        criterion, evaluation = self._session.spec.criterion, block.evaluation
        decides = evaluation.judging_loss if criterion.metric is None else evaluation.judging_metric
        return criterion.cost(np.asarray(decides))

    def _watch_steps(self, block: Block) -> None:
        steps, cohorts = block.steps, block.cohorts
        participated, weight = np.asarray(cohorts.participated), np.asarray(cohorts.weight)
        largest = np.where(participated, weight, 0).max(-1, initial=0.0)
        worked: Any = participated.any(-1)
        step, length = np.asarray(steps.step_norm), np.asarray(steps.model_norm)
        still = np.isfinite(length) & (step <= NEGLIGIBLE * length)
        too_few = worked & self._is_undecided((participated & (weight > 0)).sum(-1), step)
        self._too_few += too_few.sum(1)
        self._count_idle(worked, cohorts.sampled)
        for c, r in zip(*np.nonzero(worked & ~too_few), strict=True):
            self._now[c] = self._longer(c, self._rounds + int(r) + 1, largest[c, r], still[c, r])
            longest, now = self._longest[c], self._now[c]
            if now is not None and (longest is None or now.rounds >= longest.rounds):
                self._longest[c] = now
        self._rounds += worked.shape[1]

    def _count_idle(self, worked: Any, sampled: Any) -> None:
        """Count rounds before the first with participants; bool[C, n] and bool[C, n, m]."""
        end = np.ones((len(worked), 1), bool)
        self._idle += np.where(self._has_worked, 0, np.hstack([worked, end]).argmax(1))
        self._has_worked |= worked.any(1)
        self._has_sampled |= np.asarray(sampled).any((1, 2))

    def _longer(self, c: int, number: int, weight: float, still: bool) -> Stretch | None:
        """Return the stretch of a configuration after one more round."""
        if not still:
            return None
        seen = self._honest[c] & self._federation.is_seen & np.isfinite(self._gaps[c])
        gaps, sizes = self._gaps[c][seen], np.abs(self._gaps[c][seen])
        range_ = (float(sizes.min()), float(sizes.max())) if sizes.size else (np.nan, np.nan)
        all_met = bool((gaps < 0).all())
        before = self._now[c]
        if before is None:
            return Stretch(number, number, 1, float(weight), range_, all_met)
        largest = max(before.largest_weight, float(weight))
        return Stretch(before.first, number, before.rounds + 1, largest, range_, all_met)

    def _is_undecided(self, replies: NDArray[np.int64], step: Any) -> NDArray[np.bool_]:
        """Return whether Krum had too few replies in each round, bool[C, n].

        Replies that are not finite do not count for it; then the model stays as it was, exactly.
        """
        if self._session.spec.aggregator is not AggregationRule.KRUM:
            return np.zeros(replies.shape, bool)
        limit = np.asarray(krum_limit(self._hparams.aggregator))[:, None]
        return np.asarray((replies <= limit) | ((step == 0) & (replies > 0)))

    def _diverged(self, c: int) -> list[Finding]:
        first = self._diverged_from[c]
        if first < 0:
            return []
        why = (
            "the untrained model's already: look at the data and model.init"
            if first == 0
            else f"training diverged; lower training.local_lr (now {self._local_lr(c)})"
        )
        return [Finding("diverged", f"losses are not finite from round {first} on: {why}")]

    def _unreliable_requirements(self, c: int) -> list[Finding]:
        bad, names = self._bad_solo[c], self._federation.names
        requirement = self._session.requirement
        luck = UNLUCKY * len(names) if requirement.judging.holds_out else 0
        if len(bad) <= luck or not needs_solo(requirement):
            return []
        text = (
            f"{len(bad)} of {len(names)} clients train a solo model that is worse than the "
            f"untrained one ({named(names[bad])}), so that what they require means little: lower "
            f"{self._solo_rates(c)}"
        )
        return [Finding("unreliable-requirements", text)]

    def _trained_nothing(self, c: int) -> list[Finding]:
        total = self._session.experiment.training.rounds
        if self._has_worked[c] or self._idle[c] < min(MANY_ROUNDS, total):
            return []
        dropout = self._hparams.participation.client_dropout[c]
        why = (
            f"none that was sampled replied (participation.client_dropout is {dropout:.3g})"
            if self._has_sampled[c] and dropout > 0
            else "none was willing"
        )
        text = f"no client participated in rounds 1 to {self._idle[c]}, so that nothing was trained"
        return [Finding("no-participants", f"{text}: {why}")]

    def _stood_still(self, c: int) -> list[Finding]:
        stretch, total = self._longest[c], self._session.experiment.training.rounds
        if stretch is None or stretch.rounds < min(MANY_ROUNDS, total):
            return []
        first, last, gaps = stretch.first, stretch.last, stretch.gaps
        rounds = f"in rounds {first} to {last}" if last > first else f"in round {first}"
        if stretch.largest_weight > NO_WEIGHT:
            text = (
                f"the model stood still {rounds}, though clients participated: their updates are 0 "
                f"or lost in rounding; raise training.local_lr (now {self._local_lr(c)}) or "
                f"training.server_lr (now {self._hparams.server_lr[c]:.3g})"
            )
            return [Finding("no-updates", text)]
        temperature = getattr(self._hparams.algorithm, "temperature", None)
        if not np.isfinite(gaps[0]):  # losses that are no numbers have a finding of their own
            return []
        range_ = f"for gaps of {gaps[0]:.2g} to {gaps[1]:.2g}"
        if stretch.all_met:
            why = "the requirements of all clients are met"
        elif temperature is None:
            why = f"the method weighs no client {range_}"
        else:
            why = (
                f"the temperature ({temperature[c]:.3g}, in units of {self._decides}) is too low "
                f"{range_}"
            )
        text = (
            f"no client had a weight above {stretch.largest_weight:.2g} {rounds}, so that "
            f"the model stood still: {why}"
        )
        return [Finding("no-weights", text)]

    def _undecided(self, c: int) -> list[Finding]:
        if not self._too_few[c]:
            return []
        limit = int(krum_limit(self._hparams.aggregator)[c])
        text = (
            f"in {self._too_few[c]} of {self._rounds} rounds no more than 2 · num_byzantine + 2 = "
            f"{limit} clients sent a finite update, too few for Krum: the model stayed as it "
            f"was"
        )
        return [Finding("too-few-for-krum", text)]

    @property
    def _decides(self) -> str:
        """What requirements are about, in words."""
        metric = self._session.requirement.metric
        return "the loss" if metric is None else metric

    def _solo_rates(self, c: int) -> str:
        """Return the setting that solo models are trained with, and its value."""
        rates = self._session.requirement.training.local_lr
        if rates is None:
            return f"training.local_lr (now {self._local_lr(c)})"
        values = [f"{np.broadcast_to(rate, self._session.configurations)[c]:.3g}" for rate in rates]
        return f"requirement.local_lr (now {', '.join(values)})"

    def _local_lr(self, c: int) -> Any:
        return f"{self._hparams.local_lr[c]:.3g}"
