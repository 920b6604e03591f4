"""What happened in a run, client by client, and the figures that derive from it."""

from typing import Any, Literal, NamedTuple, get_args

import jax
import numpy as np
from numpy.typing import NDArray

from maxfl.core import appeal
from maxfl.core.criterion import Criterion
from maxfl.core.judging import Judge
from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.core.model import Params
from maxfl.core.requirements.requirement import Solo, Thresholds
from maxfl.engine.experiment import Origin
from maxfl.engine.state import CohortRecord, Evaluation, ModelStep, Personal, RoundCounts
from maxfl.utils.display import Rows, counted, html_table, one_line, span
from maxfl.utils.errors import InputError, check_choice

Floats = NDArray[np.float32]
Reading = Literal["test", "judging", "literal"]
Group = Literal["seen", "unseen", "all"]
Whose = Literal["global", "personal"]
TableName = Literal["metrics", "history", "rounds", "clients", "partition"]
GROUPS, MODELS = get_args(Group), get_args(Whose)

READINGS: dict[Reading, str] = {
    "test": "test loss against the solo model's test loss (times `multiple`): what is reported",
    "judging": "judging loss against the requirement, F_k(w) < ρ_k: what a client can act on",
    "literal": "test loss against the requirement, f_k(w) < ρ_k",
}
"""The three readings of GM-Appeal; the paper's text allows each. A metric that decides takes the
place of the loss."""


class History(NamedTuple):
    """A finished sweep (or part of one) of C configurations on K clients.

    Attributes:
        rounds: Rounds done at each evaluation, int[E]; the first is 0, the untrained model.
        is_seen: Whether each client participates in training, bool[K].
        evaluation: What each client saw of the model, [C, E, K] each.
        cohorts: Of each round, [C, R, m] each.
        solo: The solo models' results, [C, K] each.
        thresholds: Requirements, [C, K] each.
        is_byzantine: Who is Byzantine in each configuration, bool[C, K]; they count in no mean.
        params: The final global model, leading axis C; of a portfolio leading axes C and models, of
            which those beyond ``models_of`` a configuration mean nothing.
        steps: The server's step of each round, [C, R] each; () where they are not known.
        counts: Of all clients, where data are streamed and the history is that of the evaluation
            clients; else ().
        metric_infos: The model's metrics in their order; the first is the one in tables.
        criterion: What clients judge a model by: the loss, or one of these metrics.
        origin: What it is the history of; None where that is not known.
        judge: What data clients judge by.
    """

    rounds: NDArray[np.int64]
    is_seen: NDArray[np.bool_]
    evaluation: Evaluation
    cohorts: CohortRecord
    solo: Solo
    thresholds: Thresholds
    is_byzantine: NDArray[np.bool_]
    params: Params
    steps: ModelStep | tuple[()] = ()
    counts: RoundCounts | tuple[()] = ()
    metric_infos: tuple[MetricInfo, ...] = (ACCURACY,)
    criterion: Criterion = Criterion()
    origin: Origin | None = None
    judge: Judge = "training"

    def __repr__(self) -> str:
        """Return a line with the final figures, over all configurations."""
        return one_line("History", lambda: ", ".join(self._words()))

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return html_table("History", self._rows)

    def _words(self) -> list[str]:
        name = "" if self.origin is None else f"{self.origin.settings['algorithm']['name']}: "
        rounds, count = int(self.rounds[-1]), len(self.is_byzantine)
        many = [counted(count, "configuration")] if count > 1 else []
        last = self._last()
        appeal = [f"{g} {span(last.gm_appeal(g), '{:.2f}'.format)}" for g in self.groups]
        if self.has_portfolio:
            models = np.array([self.models_of(c) for c in range(count)])
            many.append(f"{span(models, '{:d}'.format)} models")
        return [f"{name}{counted(rounds, 'round')}", *many, f"GM-Appeal of {', '.join(appeal)}"]

    def _rows(self) -> Rows:
        last = self._last()
        if self.origin is not None:
            yield "method", self.origin.settings["algorithm"]["name"]
            yield "data", self.origin.federation.metadata.title
            yield "model", self.origin.model.name or "own functions"
        yield "rounds", f"{int(self.rounds[-1]):,}, evaluated {len(self.rounds):,} times"
        yield "configurations", f"{len(self.is_byzantine):,}"
        for group in self.groups:
            yield f"GM-Appeal, {group}", span(last.gm_appeal(group), "{:.3f}".format)
            mean = span(last.test_metric(group), "{:.4g}".format)
            yield f"test {self.metric.name}, {group}", mean
        yield "willing to go on", span(last.willing_share(), "{:.0%}".format)

    def _last(self) -> "History":
        """Return what is known of the final model alone."""
        final = jax.tree.map(lambda a: a[:, -1:], self.evaluation)
        return self._replace(rounds=self.rounds[-1:], evaluation=final)

    def to_arrow(self, table: TableName = "metrics") -> Any:
        """Return one of the tables that ``maxfl.run`` writes, as a ``pyarrow.Table``.

        Args:
            table: ``"metrics"``: means over clients, a row per configuration, evaluated round,
                group of clients, model and metric; ``"history"``: of every client; ``"rounds"``:
                every round and sampled client; ``"clients"``: their sizes, requirements and solo
                results; ``"partition"``: their labels.
        """
        from maxfl.runs.frames import to_arrow

        return to_arrow(self, table)

    def to_pandas(self, table: TableName = "metrics") -> Any:
        """Return such a table as a ``pandas.DataFrame``."""
        from maxfl.runs.frames import to_pandas

        return to_pandas(self, table)

    def to_polars(self, table: TableName = "metrics") -> Any:
        """Return such a table as a ``polars.DataFrame``."""
        from maxfl.runs.frames import to_polars

        return to_polars(self, table)

    def plot(self) -> Any:
        """Return a ``matplotlib`` figure of GM-Appeal and the first metric over rounds.

        Configurations that differ in nothing but the seed are one line, their mean, with a thin
        one for each. ``figure.savefig("curves.pdf")`` keeps it.
        """
        from maxfl.runs.inline import plot

        return plot(self)

    def satisfied(self, reading: Reading = "test", model: Whose = "global") -> NDArray[np.bool_]:
        """Return whether the model meets each client's requirement, bool[C, E, K]."""
        judging, test = self.deciding(model)
        pairs = {
            "test": (test, self.thresholds.test),
            "judging": (judging, self.thresholds.judging),
            "literal": (test, self.thresholds.judging),
        }
        value, threshold = pairs[check_choice("reading", reading, READINGS)]
        return np.asarray(self.criterion.satisfied(value, np.asarray(threshold)[:, None, :]))

    def deciding(self, model: Whose = "global") -> tuple[Floats, Floats]:
        """Return what requirements are about, on judging and on test data, [C, E, K] each."""
        scores = self.scores(model)
        judging = scores.judging_loss if self.criterion.metric is None else scores.judging_metric
        test = self.criterion.value(scores.test_loss, scores.test_metrics)
        return np.asarray(judging), np.asarray(test)

    def scores(self, model: Whose = "global") -> Evaluation | Personal:
        """Return the scores of the global model, or of each client's personal or fine-tuned one."""
        if check_choice("model", model, MODELS) == "global":
            return self.evaluation
        if not self.has_personal:
            raise InputError(
                "this run has no personal models: take a method that makes them, or finetune_steps"
            )
        return self.evaluation.personal

    @property
    def groups(self) -> tuple[Group, ...]:
        """Groups of clients that there are."""
        return ("seen",) if self.is_seen.all() else ("seen", "unseen")

    @property
    def models(self) -> tuple[Whose, ...]:
        """Models that were measured."""
        return ("global", "personal") if self.has_personal else ("global",)

    @property
    def has_personal(self) -> bool:
        """Whether clients had personal or fine-tuned models."""
        return isinstance(self.evaluation.personal, Personal)

    @property
    def has_portfolio(self) -> bool:
        """Whether there were several global models; then all scores are of the one picked."""
        return not isinstance(self.evaluation.picked, tuple)

    def models_of(self, configuration: int) -> int:
        """Return K, the number of global models of a configuration."""
        if not self.has_portfolio:
            return 1
        settings = {} if self.origin is None else self.origin.settings.get("portfolio", {})
        models = settings.get("models", int(np.max(self.evaluation.picked)) + 1)
        return int(np.broadcast_to(models, len(self.is_byzantine))[configuration])

    def gm_appeal(
        self, clients: Group = "seen", reading: Reading = "test", model: Whose = "global"
    ) -> Floats:
        """Return the share of clients whose requirement the model meets, float[C, E]."""
        return self.mean(self.satisfied(reading, model), clients)

    @property
    def metric(self) -> MetricInfo:
        """The model's first metric: accuracy for classifiers."""
        return self.metric_infos[0]

    def test_metric(
        self, clients: Group = "seen", model: Whose = "global", name: str | None = None
    ) -> Floats:
        """Return the mean over clients of a metric of the model, float[C, E].

        Args:
            clients: Whose.
            model: The global model, or each client's personal or fine-tuned one.
            name: Which metric; by default the first.
        """
        return self.mean(self.scores(model).test_metrics[self._metric(name)], clients)

    def preferred_metric(
        self, clients: Group = "seen", reading: Reading | None = None, model: Whose = "global"
    ) -> Floats:
        """Return the first metric if satisfied clients use the model, others their solo one.

        By default they choose by their judging data, where they hold some out; in the paper's
        protocol by their test data, as its tables do.
        """
        default: Reading = "judging" if self.judge == "held-out" else "test"
        chosen = appeal.preferred(
            self.satisfied(reading or default, model),
            self.scores(model).test_metrics[0],
            np.asarray(self.solo.test_metric)[:, None, :],
        )
        return self.mean(chosen, clients)

    def solo_metric(self, clients: Group = "seen", name: str | None = None) -> Floats:
        """Return the mean metric of the models that clients train alone, float[C]."""
        return self.mean(np.asarray(self.solo.test_metrics[self._metric(name)]), clients)

    def _metric(self, name: str | None) -> int:
        """Return the place of a metric among the model's."""
        names = [metric.name for metric in self.metric_infos]
        return 0 if name is None else names.index(check_choice("name", name, names))

    def willing_share(self, clients: Group = "seen") -> Floats:
        """Return the share of clients that would participate in the next round, float[C, E]."""
        return self.mean(self.evaluation.willing, clients)

    def metrics(self, clients: Group = "seen", model: Whose = "global") -> dict[str, Floats]:
        """Return every mean over clients by name, float[C, E] each.

        Those of the model's metrics are called ``test_accuracy`` and the like; of the first there
        are also ``preferred_accuracy`` and ``solo_accuracy``.
        """
        scores, first = self.scores(model), self.metric.name
        shape = (len(self.is_byzantine), len(self.rounds))
        names = [metric.name for metric in self.metric_infos]
        return {
            **{f"test_{name}": self.test_metric(clients, model, name) for name in names},
            "gm_appeal": self.gm_appeal(clients, "test", model),
            "gm_appeal_judging": self.gm_appeal(clients, "judging", model),
            "gm_appeal_literal": self.gm_appeal(clients, "literal", model),
            f"preferred_{first}": self.preferred_metric(clients, model=model),
            "judging_loss": self.mean(scores.judging_loss, clients),
            "test_loss": self.mean(scores.test_loss, clients),
            "willing": self.willing_share(clients),
            f"solo_{first}": np.broadcast_to(self.solo_metric(clients)[:, None], shape),
        }

    def mean(self, values: Any, clients: Group = "seen") -> Floats:
        """Average over the honest clients of a group, [C, ..., K] to [C, ...]; NaN if empty."""
        group = {
            "seen": self.is_seen,
            "unseen": ~self.is_seen,
            "all": np.full_like(self.is_seen, 1),
        }
        counts = group[check_choice("clients", clients, GROUPS)] & ~self.is_byzantine
        values = np.asarray(values, np.float32)
        counts = counts.reshape(len(counts), *[1] * (values.ndim - 2), -1)
        # A client that does not count must not, even if its loss is infinite.
        sums = np.where(counts, values, 0).sum(-1, dtype=np.float64)
        with np.errstate(invalid="ignore"):  # 0/0 is NaN
            return np.asarray(sums / counts.sum(-1), np.float32)

    def sampled(self) -> NDArray[np.bool_]:
        """Return whether each client was sampled in the round before an evaluation: bool[C, E, K].

        Round 0, the untrained model, has nobody.
        """
        return self._flags(self.cohorts.sampled)

    def participated(self) -> NDArray[np.bool_]:
        """Return whether each client participated in that round, bool[C, E, K]."""
        return self._flags(self.cohorts.participated)

    def _flags(self, slots: Any) -> NDArray[np.bool_]:
        """Turn slots of cohorts, bool[C, R, m], into clients at evaluations, bool[C, E, K]."""
        flags = np.zeros((len(slots), len(self.rounds), len(self.is_seen)), bool)
        for e, done in enumerate(self.rounds):
            if done > 0:
                c, slot = np.nonzero(slots[:, done - 1])
                flags[c, e, self.cohorts.client_id[c, done - 1, slot]] = True
        return flags

    def without_requirement(self) -> NDArray[np.int64]:
        """Count clients whose requirement is no number, as their solo training diverged, int[C].

        Such a client is never satisfied and has no weight in MaxFL.
        """
        return np.asarray((~np.isfinite(self.thresholds.judging) & ~self.is_byzantine).sum(1))

    def failed(self) -> NDArray[np.bool_]:
        """Return whether each configuration diverged: a loss or all requirements are not finite."""
        finite = np.isfinite(self.evaluation.judging_loss)
        if self.has_personal:
            finite &= np.isfinite(self.evaluation.personal.judging_loss)
        losses = (finite | self.is_byzantine[:, None]).all((1, 2))
        return np.asarray(~losses | (self.without_requirement() == (~self.is_byzantine).sum(1)))

    def stalled_from(self) -> NDArray[np.int64]:
        """Return the first round (from 1) without an honest client, int[C]; 0 if some stay."""
        nobody = ~(self.evaluation.willing[:, -1] & self.is_seen & ~self.is_byzantine).any(1)
        if self.counts:  # the willing of some clients are not all
            nobody &= np.asarray(self.counts.willing)[:, -1] == 0
        active = self._honest_work()
        last = np.where(active, np.arange(1, active.shape[1] + 1), 0).max(1, initial=0)
        return np.where(nobody, last + 1, 0)

    def _honest_work(self) -> NDArray[np.bool_]:
        """Return whether an honest client participated in each round, bool[C, R]."""
        if self.counts:
            return np.asarray(self.counts.participated) > 0
        honest = ~np.take_along_axis(
            self.is_byzantine[:, None], np.asarray(self.cohorts.client_id), axis=-1
        )
        return np.asarray((np.asarray(self.cohorts.participated) & honest).any(-1))
