"""What happened in a run, client by client, and the figures that derive from it."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core import appeal
from maxfl.core.model import Params
from maxfl.core.requirement import Solo, Thresholds
from maxfl.engine.spec import Asked, Evaluation, Personal
from maxfl.utils.errors import InputError, check_choice

Floats = NDArray[np.float32]
Reading = Literal["held-out", "training", "literal"]
Group = Literal["seen", "unseen", "all"]
Whose = Literal["global", "personal"]

READINGS: dict[Reading, str] = {
    "held-out": "held-out loss against the solo model's held-out loss (times `multiple`)",
    "training": "training loss against the requirement, F_k(w) < ρ_k: what a client can act on",
    "literal": "held-out loss against the requirement, f_k(w) < ρ_k",
}
"""The three readings of GM-Appeal; the paper's text allows each."""


class Survey(NamedTuple):
    """Counts of honest clients in each round, where the history shows only some; int[C, T].

    Attributes:
        asked: Those that said whether they were willing.
        willing: Those of them that were: their share estimates that of all.
        took_part: Those that trained and answered.
    """

    asked: Any
    willing: Any
    took_part: Any

    @property
    def share(self) -> Floats:
        """Willing among the asked, float[C, T]; NaN where nobody was asked."""
        with np.errstate(invalid="ignore"):  # 0/0 is NaN
            return np.asarray(np.divide(self.willing, self.asked), np.float32)


class History(NamedTuple):
    """A finished sweep (or part of one) of C configurations on K clients.

    Attributes:
        rounds: Rounds done at each evaluation, int[E]; the first is 0, the untrained model.
        is_seen: Whether each client takes part in training, bool[K].
        evaluation: What each client saw of the model, [C, E, K] each.
        asked: Who was asked in each round, [C, T, m] each.
        solo: The solo models' results, [C, K] each.
        thresholds: Requirements, [C, K] each.
        lies: Who is Byzantine in each configuration, bool[C, K]; they count in no mean.
        params: The final global model, leading axis C.
        survey: Of a stream, whose history is that of a panel; else ().
    """

    rounds: NDArray[np.int64]
    is_seen: NDArray[np.bool_]
    evaluation: Evaluation
    asked: Asked
    solo: Solo
    thresholds: Thresholds
    lies: NDArray[np.bool_]
    params: Params
    survey: Survey | tuple[()] = ()

    def satisfied(
        self, reading: Reading = "held-out", model: Whose = "global"
    ) -> NDArray[np.bool_]:
        """Whether the model meets each client's requirement, bool[C, E, K]."""
        scores = self.scores(model)
        pairs = {
            "held-out": (scores.test_loss, self.thresholds.test),
            "training": (scores.train_loss, self.thresholds.train),
            "literal": (scores.test_loss, self.thresholds.train),
        }
        loss, bar = pairs[check_choice("reading", reading, pairs)]
        return appeal.appealing(np.asarray(loss), np.asarray(bar)[:, None, :])

    def scores(self, model: Whose = "global") -> Evaluation | Personal:
        """What the global model, or each client's personal or tuned one, was measured to do."""
        if check_choice("model", model, ("global", "personal")) == "global":
            return self.evaluation
        if not self.has_personal:
            raise InputError(
                "this run has no personal models: it takes a method that makes them, or tuning"
            )
        return self.evaluation.personal

    @property
    def has_personal(self) -> bool:
        """Whether clients had personal or tuned models."""
        return isinstance(self.evaluation.personal, Personal)

    def gm_appeal(
        self, clients: Group = "seen", reading: Reading = "held-out", model: Whose = "global"
    ) -> Floats:
        """Share of clients whose requirement the model meets, float[C, E]."""
        return self.mean(self.satisfied(reading, model), clients)

    def accuracy(self, clients: Group = "seen", model: Whose = "global") -> Floats:
        """Mean test accuracy of the model, float[C, E]."""
        return self.mean(self.scores(model).test_accuracy, clients)

    def preferred_accuracy(
        self, clients: Group = "seen", reading: Reading = "held-out", model: Whose = "global"
    ) -> Floats:
        """Mean test accuracy if satisfied clients use the model and others their solo one."""
        chosen = appeal.preferred(
            self.satisfied(reading, model),
            self.scores(model).test_accuracy,
            np.asarray(self.solo.test_accuracy)[:, None, :],
        )
        return self.mean(chosen, clients)

    def solo_accuracy(self, clients: Group = "seen") -> Floats:
        """Mean test accuracy of the models that clients train alone, float[C]."""
        return self.mean(np.asarray(self.solo.test_accuracy), clients)

    def willing_share(self, clients: Group = "seen") -> Floats:
        """Share of clients that would take part in the next round, float[C, E]."""
        return self.mean(self.evaluation.willing, clients)

    def metrics(self, clients: Group = "seen", model: Whose = "global") -> dict[str, Floats]:
        """Every mean over clients by name, float[C, E] each."""
        scores = self.scores(model)
        shape = (len(self.lies), len(self.rounds))
        return {
            "test_accuracy": self.accuracy(clients, model),
            "gm_appeal": self.gm_appeal(clients, "held-out", model),
            "gm_appeal_training": self.gm_appeal(clients, "training", model),
            "gm_appeal_literal": self.gm_appeal(clients, "literal", model),
            "preferred_accuracy": self.preferred_accuracy(clients, "held-out", model),
            "train_loss": self.mean(scores.train_loss, clients),
            "test_loss": self.mean(scores.test_loss, clients),
            "willing": self.willing_share(clients),
            "solo_accuracy": np.broadcast_to(self.solo_accuracy(clients)[:, None], shape),
        }

    def mean(self, values: Any, clients: Group = "seen") -> Floats:
        """Mean over the honest clients of a group, [C, ..., K] to [C, ...]; NaN if it is empty."""
        group = {
            "seen": self.is_seen,
            "unseen": ~self.is_seen,
            "all": np.full_like(self.is_seen, 1),
        }
        counts = group[check_choice("clients", clients, group)] & ~self.lies
        values = np.asarray(values, np.float32)
        counts = counts.reshape(len(counts), *[1] * (values.ndim - 2), -1)
        # A client that does not count must not, even if its loss is infinite.
        sums = np.where(counts, values, 0).sum(-1, dtype=np.float64)
        with np.errstate(invalid="ignore"):  # 0/0 is NaN
            return np.asarray(sums / counts.sum(-1), np.float32)

    def sampled(self) -> NDArray[np.bool_]:
        """Whether each client was asked in the round that led to each evaluation, bool[C, E, K].

        Round 0, the untrained model, has nobody.
        """
        return self._flags(self.asked.sampled)

    def took_part(self) -> NDArray[np.bool_]:
        """Whether each client took part in the round that led to each evaluation, bool[C, E, K]."""
        return self._flags(self.asked.took_part)

    def _flags(self, slots: Any) -> NDArray[np.bool_]:
        """From the slots of cohorts, bool[C, T, m], to clients at evaluations, bool[C, E, K]."""
        flags = np.zeros((len(slots), len(self.rounds), len(self.is_seen)), bool)
        for e, done in enumerate(self.rounds):
            if done > 0:
                c, slot = np.nonzero(slots[:, done - 1])
                flags[c, e, self.asked.client[c, done - 1, slot]] = True
        return flags

    def without_requirement(self) -> NDArray[np.int64]:
        """Clients whose requirement is no number, because their solo training diverged, int[C].

        Such a client is never satisfied and has no weight in MaxFL.
        """
        return np.asarray((~np.isfinite(self.thresholds.train) & ~self.lies).sum(1))

    def failed(self) -> NDArray[np.bool_]:
        """Whether each configuration diverged: a loss, or every requirement, is not finite."""
        finite = np.isfinite(self.evaluation.train_loss)
        if self.has_personal:
            finite &= np.isfinite(self.evaluation.personal.train_loss)
        losses = (finite | self.lies[:, None]).all((1, 2))
        return np.asarray(~losses | (self.without_requirement() == (~self.lies).sum(1)))

    def stalled_from(self) -> NDArray[np.int64]:
        """First round (from 1) without an honest client, int[C]; 0 if some stay willing."""
        nobody = ~(self.evaluation.willing[:, -1] & self.is_seen & ~self.lies).any(1)
        if self.survey:  # the willing of a panel are not all
            nobody &= np.asarray(self.survey.willing)[:, -1] == 0
        active = self._honest_work()
        last = np.where(active, np.arange(1, active.shape[1] + 1), 0).max(1, initial=0)
        return np.where(nobody, last + 1, 0)

    def _honest_work(self) -> NDArray[np.bool_]:
        """Whether an honest client took part in each round, bool[C, T]."""
        if self.survey:
            return np.asarray(self.survey.took_part) > 0
        honest = ~np.take_along_axis(self.lies[:, None], np.asarray(self.asked.client), axis=-1)
        return np.asarray((np.asarray(self.asked.took_part) & honest).any(-1))
