"""Runs of the engine with several models, which the oracle follows on their cohorts and batches."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

import maxfl
from maxfl.core.federation import Federation
from maxfl.core.judging import with_judging
from maxfl.core.prng import Purpose, batch_key, key
from support import oracle, small
from support.oracle import Client, Floats, Params, add_scaled
from support.oracle_methods import GradientOf
from support.oracle_portfolio import (
    Choice,
    Method,
    Portfolio,
    begin,
    choose,
    client_weight,
    start_anew,
    train,
)
from support.oracle_runs import LR, SEED, SERVER_LR, STEPS, TRAINING, client_data, participants


def clustering(algorithm: Any, models: int) -> dict[str, Any]:
    """Return arguments of a run of IFCA or HypCluster, which ignore the patience."""
    return {
        "algorithm": algorithm,
        "training": TRAINING._replace(rounds=6),
        "portfolio": maxfl.portfolio(models, patience=1),
        "seed": 0,
    }


class Round(NamedTuple):
    """A round that the oracle followed.

    Attributes:
        before: The server at its beginning, before a model started anew.
        vacant: The model that started anew; None where none did.
        choices: Of every client, seen or not.
        cohort: The clients that participated.
    """

    before: Portfolio
    vacant: int | None
    choices: list[Choice]
    cohort: list[int]

    @property
    def trained(self) -> list[int]:
        """The models that the participants trained."""
        return [self.choices[k].trains for k in self.cohort]

    @property
    def has_twins_apart(self) -> bool:
        """Whether a model started anew and some trained it, others the one it is a copy of."""
        return self.vacant is not None and {self.vacant, self.before.donor} <= set(self.trained)


def starts(models: int, seed: int = SEED) -> list[Params]:
    """Return the models that a run of the small federation begins with."""
    drawn = [small.MODEL.init(key(seed, Purpose.INIT, 0, j)) for j in range(models)]
    return [[(as_floats(w), as_floats(b)) for w, b in params] for params in drawn]


def final_models(history: Any, models: int, configuration: int = 0) -> list[Params]:
    """Return the models that a run ended with."""
    params = jax.tree.map(lambda a: as_floats(a[configuration]), history.params)
    return [[(w[j], b[j]) for w, b in params] for j in range(models)]


def as_floats(array: Any) -> Floats:
    """Return an array in double precision."""
    return np.asarray(array, np.float64)


def assert_models(history: Any, expected: Sequence[Params], configuration: int = 0) -> None:
    """Compare the final models of a configuration with the oracle's."""
    found = final_models(history, len(expected), configuration)
    for j, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        for layer, their_layer in zip(ours, theirs, strict=True):
            for a, b in zip(layer, their_layer, strict=True):
                np.testing.assert_allclose(a, b, atol=1e-5, err_msg=f"model {j}")


def assert_untrained_stay(start: Any, history: Any) -> None:
    """Compare the models with the state that a run started from: bits, of those nobody trained."""
    trained = set(history.cohorts.model[history.cohorts.participated].tolist())
    assert len(trained) < len(start.server.params[0].weight[0]), "a model should be idle"
    pairs = map(jax.tree.leaves, (start.server.params, history.params))
    for before, after in zip(*pairs, strict=True):
        for j, (old, new) in enumerate(zip(before[0], after[0], strict=True)):
            assert np.array_equal(old, new) == (j not in trained), f"model {j}"


class Run:
    """A run of the small federation that the oracle follows.

    Attributes:
        history: The engine's.
        method: What it ran, with its numbers.
        models: K.
        requirement: What clients require, where that decides about the data that they judge by.
        participation: Who participates; everyone unless it is given. Nobody may drop out.
        update_scale: What Byzantine clients multiply their update by.
        seed: Of the run.
        configuration: Which of the history's.
    """

    def __init__(
        self,
        history: Any,
        method: Method,
        models: int,
        *,
        requirement: Any = None,
        participation: Any = None,
        update_scale: float = 1.0,
        seed: int = SEED,
        configuration: int = 0,
    ) -> None:
        """Take one configuration of a history."""
        pick = slice(configuration, configuration + 1)
        parts = (history.evaluation, history.cohorts, history.thresholds, history.params)
        evaluation, cohorts, thresholds, params = jax.tree.map(lambda a: a[pick], parts)
        self.history = history._replace(
            evaluation=evaluation, cohorts=cohorts, thresholds=thresholds, params=params
        )
        self.method, self.models, self.seed = method, models, seed
        self.participation = participation
        byzantine = np.flatnonzero(history.is_byzantine[configuration])
        self.sent = {int(k): update_scale for k in byzantine}
        federation: Federation = small.SMALL
        if requirement is not None:
            federation = with_judging(federation, requirement.judging)
        self.clients: list[Client] = client_data(federation.train)
        self.judged: list[Client] = client_data(federation.judged)
        self.tested: list[Client] = client_data(federation.test)
        sign = 1.0 if method.cost == "loss" else -1.0
        self.rho = sign * as_floats(thresholds.judging[0])

    def follow(self) -> list[Round]:
        """Replay the run in NumPy, and hold the engine to it.

        What is compared in every round: each client's pick, its loss with it on the data that it
        judges by and on test data, its weight, who is willing to participate, and the model that
        each of the cohort trained; in the end the models.

        Returns:
            The rounds.
        """
        portfolio, rounds = begin(starts(self.models, self.seed)), []
        for t in range(self.history.cohorts.client_id.shape[1]):
            self._assert_evaluation(t, portfolio)
            renewed, vacant = start_anew(portfolio, self.method.patience)
            now = Round(
                portfolio, vacant, self._choices(renewed, vacant), participants(self.history, t)
            )
            self._assert_cohort(t, now)
            portfolio = train(
                self.method, renewed, self.clients, now.choices, now.cohort,
                self._gradient(t), STEPS, LR, SERVER_LR, self.sent,
            )  # fmt: skip
            rounds.append(now)
        self._assert_evaluation(len(rounds), portfolio)
        assert_models(self.history, portfolio.models)
        return rounds

    def finetuned(self, k: int, w: Params) -> Params:
        """Return a model after the fine-tuning steps of client k."""
        gradient_of = self._gradient(0, Purpose.FINETUNING)
        for r in range(self.method.finetune_steps):
            w = add_scaled(w, gradient_of(k, w, r + 1), -LR)
        return w

    def _choices(self, portfolio: Portfolio, vacant: int | None = None) -> list[Choice]:
        """Return what all clients do."""
        return [
            choose(
                portfolio, vacant, data, self.rho[k], self.method.cost, partial(self.finetuned, k)
            )
            for k, data in enumerate(self.judged)
        ]  # fmt: skip

    def _gradient(self, t: int, purpose: Purpose = Purpose.TRAINING) -> GradientOf:
        """Return gradient_of(k, w, draw) of round t, on the engine's minibatches."""

        def gradient_of(k: int, w: Params, draw: int) -> Params:
            x, y = self.clients[k]
            drawn = batch_key(key(self.seed, purpose, t, k), draw)
            bits = jax.random.bits(drawn, (int(np.asarray(small.TRAINING.batch_size)),), np.uint32)
            rows = np.asarray(bits) % len(y)
            return oracle.gradient(w, x[rows], y[rows])

        return gradient_of

    def _weights(self, portfolio: Portfolio, choices: Sequence[Choice]) -> list[float]:
        """Return the weights of all clients."""
        return [
            client_weight(self.method, portfolio, len(y), choice.used_gap)
            for (_, y), choice in zip(self.clients, choices, strict=True)
        ]

    def _assert_evaluation(self, t: int, portfolio: Portfolio) -> None:
        """Compare the evaluation after t rounds."""
        choices, evaluation = self._choices(portfolio), self.history.evaluation
        picked = [choice.picked for choice in choices]
        found = evaluation.picked[0, t]
        np.testing.assert_array_equal(found, picked, err_msg=f"picks after {t} rounds")
        self._assert_scores(t, evaluation, [portfolio.models[j] for j in picked])
        weights = self._weights(portfolio, choices)
        np.testing.assert_allclose(evaluation.weight[0, t], weights, atol=1e-5)
        if self.method.finetune_steps:
            personal = self.history.scores("personal")
            self._assert_scores(t, personal, [choice.used for choice in choices])

    def _assert_scores(self, t: int, scores: Any, used: Sequence[Params]) -> None:
        """Compare scores after t rounds with those of the model that each client uses."""
        on_judging = [oracle.loss(w, *data) for w, data in zip(used, self.judged, strict=True)]
        on_test = [oracle.loss(w, *data) for w, data in zip(used, self.tested, strict=True)]
        right = [oracle.accuracy(w, *data) for w, data in zip(used, self.tested, strict=True)]
        np.testing.assert_allclose(scores.judging_loss[0, t], on_judging, atol=1e-5)
        np.testing.assert_allclose(scores.test_loss[0, t], on_test, atol=1e-5)
        np.testing.assert_allclose(scores.test_metrics[0][0, t], right, atol=1e-6)

    def _assert_cohort(self, t: int, now: Round) -> None:
        """Compare what the cohort of a round did; who participated must have been willing to."""
        cohorts, where = self.history.cohorts, f"round {t}"
        present = cohorts.participated[0, t]
        np.testing.assert_array_equal(cohorts.model[0, t, present], now.trained, err_msg=where)
        weights = self._weights(now.before, now.choices)
        expected = [weights[k] for k in now.cohort]
        found = cohorts.weight[0, t, present]
        np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=where)
        rule = self.participation
        if rule is None or t < rule.hparams.start_round:
            assert len(now.cohort) == small.TRAINING.cohort, where
            return
        wants = [choice.gap < 0.0 for choice in now.choices[: small.SMALL.seen]]
        if rule.rule == "opt-out":
            assert all(wants[k] for k in now.cohort), where
            assert len(now.cohort) == min(small.TRAINING.cohort, sum(wants)), where
        else:
            sampled = cohorts.client_id[0, t].tolist()
            assert now.cohort == [k for k in sampled if wants[k]], where
