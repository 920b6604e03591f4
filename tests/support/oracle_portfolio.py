"""Plain-NumPy reference of portfolios: K global models, of which each client picks one.

In the manner of ``oracle``: one client and one model after another, float64 throughout. The rounds
come first, for methods whose clients send Δ_k = w − w_k; then runs of the engine that they follow,
with its cohorts and minibatches.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import numpy as np

from maxfl.core.federation import Federation
from maxfl.core.judging import with_judging
from maxfl.core.prng import Purpose, batch_key, key
from support import oracle, small
from support.oracle import Client, Floats, Params, add_scaled
from support.oracle_methods import GradientOf, minus, scaled, sgd, zeros_like
from support.oracle_runs import LR, SEED, SERVER_LR, STEPS, client_data, participants
from support.oracle_server import momentum, weighted_median

Cost: TypeAlias = Literal["loss", "accuracy"]
Tune: TypeAlias = Callable[[Params], Params]


# ----------------------------------------------------------------------------- what is chosen


class Tracking(NamedTuple):
    """How a temperature T = c·s follows the gaps (maxfl-auto): c, the quantile p, the gain γ."""

    multiple: float
    quantile: float
    gain: float


class Method(NamedTuple):
    """A method and its numbers.

    Attributes:
        weigh: Whether clients weigh alike (FedAvg, IFCA), by their training samples (HypCluster)
            or by the sigmoid of their gap (MaxFL).
        epsilon: ε, added to the sum of a model's weights.
        temperature: T, unless it is tracked.
        tracking: How T follows the gaps; None where it is fixed.
        patience: Participants per model after which one that nobody trains starts anew; 0: never.
        beta: Momentum of the server's steps; 0 for plain ones.
        cost: What requirements are about.
        finetune_steps: Steps that clients fine-tune the model that they picked by, before they
            weigh it.
        is_median: Whether a model's mean is the weighted median of each coordinate instead.
    """

    weigh: Literal["alike", "size", "appeal"] = "alike"
    epsilon: float = 0.0
    temperature: float = 1.0
    tracking: Tracking | None = None
    patience: int = 0
    beta: float = 0.0
    cost: Cost = "loss"
    finetune_steps: int = 0
    is_median: bool = False


class Portfolio(NamedTuple):
    """What the server has.

    Attributes:
        models: w_1 .. w_K.
        velocities: What the server's momentum keeps for each.
        idle: For each, participants since one last trained it.
        donor: The model that most participants of the last round trained whose gap was above 0.
        unmet_gap: Mean gap of those of them that trained the donor; ∞ without any.
        scale: s of a tracked temperature, of all models together; 0 before it is known.
    """

    models: list[Params]
    velocities: list[Params]
    idle: list[int]
    donor: int = 0
    unmet_gap: float = math.inf
    scale: float = 0.0


class Choice(NamedTuple):
    """What a client does.

    Attributes:
        picked: The model that it picks.
        gap: How far that is above the requirement.
        trains: The model that it trains.
        used: The picked model as the client uses it: fine-tuned, where clients fine-tune.
        used_gap: How far that is above the requirement, by which the client weighs.
    """

    picked: int
    gap: float
    trains: int
    used: Params
    used_gap: float


# ----------------------------------------------------------------------------- a round


def begin(models: Sequence[Params]) -> Portfolio:
    """Return the server before the first round."""
    return Portfolio(list(models), [zeros_like(w) for w in models], [0] * len(models))


def start_anew(portfolio: Portfolio, patience: int) -> tuple[Portfolio, int | None]:
    """Copy the donor over the one that has been idle longest, if long enough.

    Returns:
        The portfolio, and the model that started anew; None where none did.
    """
    longest = max(portfolio.idle)
    too_soon = longest < patience * len(portfolio.models)
    if patience == 0 or too_soon or portfolio.unmet_gap == math.inf:
        return portfolio, None
    vacant = portfolio.idle.index(longest)
    models, velocities = list(portfolio.models), list(portfolio.velocities)
    models[vacant] = models[portfolio.donor]
    velocities[vacant] = velocities[portfolio.donor]
    return portfolio._replace(models=models, velocities=velocities), vacant


def costs(params: Params, data: Client, about: Cost) -> tuple[float, float]:
    """Return what the requirement is about, less being better, and the loss."""
    loss = oracle.loss(params, *data)
    return (loss if about == "loss" else -oracle.accuracy(params, *data)), loss


def choose(
    portfolio: Portfolio, vacant: int | None, data: Client, rho: float, about: Cost, tune: Tune
) -> Choice:
    """Pick the model of least cost, of equal ones that of least loss, and say which is trained.

    rho is the bound of the cost: where that is an accuracy, the negated one. All of it is decided
    by the models as the server sends them.
    """
    measured = [costs(w, data, about) for w in portfolio.models]
    picked = measured.index(min(measured))
    gap = measured[picked][0] - rho
    trains = picked
    if vacant is not None and picked in (vacant, portfolio.donor):
        trains = vacant if gap >= portfolio.unmet_gap else portfolio.donor
    used = tune(portfolio.models[picked])
    return Choice(picked, gap, trains, used, costs(used, data, about)[0] - rho)


def temperature(method: Method, portfolio: Portfolio) -> float:
    """Return T of the round: fixed, or c·s; ∞ before s is known."""
    if method.tracking is None:
        return method.temperature
    return method.tracking.multiple * portfolio.scale if portfolio.scale else math.inf


def client_weight(method: Method, portfolio: Portfolio, samples: int, gap: float) -> float:
    """Return q_k of a client with so many training samples and a gap with the model it picked."""
    if method.weigh == "alike":
        return 1.0
    if method.weigh == "size":
        return float(samples)
    return oracle.weight(gap, temperature(method, portfolio))


def next_scale(tracking: Tracking | None, scale: float, gaps: Sequence[float]) -> float:
    """Return s after a round with these gaps: their mean |gap| at first, then s exp(γ(p − share)).

    share is that of the gaps below s in size.
    """
    if tracking is None:
        return scale
    sizes = [abs(gap) for gap in gaps]
    if not scale:
        return sum(sizes) / len(sizes)
    share = sum(size < scale for size in sizes) / len(sizes)
    return scale * math.exp(tracking.gain * (tracking.quantile - share))


def combined(method: Method, updates: Sequence[Params], weights: Sequence[float]) -> Params:
    """Return Σ q_k u_k / (Σ q_k + ε), or the weighted median of each coordinate."""
    mass = sum(weights) + method.epsilon
    total = zeros_like(updates[0])
    for update, q in zip(updates, weights, strict=True):
        total = add_scaled(total, update, q / mass)
    if not method.is_median:
        return total
    flat = np.stack([flattened(update) for update in updates])
    return unflattened(weighted_median(flat, np.array(weights)), total)


def flattened(params: Params) -> Floats:
    """Return all numbers of params in a row."""
    return np.concatenate([part.ravel() for layer in params for part in layer])


def unflattened(row: Floats, like: Params) -> Params:
    """Return a row of numbers in the shapes of params."""
    result: Params = []
    for weights, bias in like:
        both, row = row[: weights.size + bias.size], row[weights.size + bias.size :]
        result.append((both[: weights.size].reshape(weights.shape), both[weights.size :]))
    return result


def train(
    method: Method,
    portfolio: Portfolio,
    clients: Sequence[Client],
    choices: Sequence[Choice],
    cohort: Sequence[int],
    gradient_of: GradientOf,
    steps: int,
    lr: float,
    server_lr: float,
    sent: Mapping[int, float],
) -> Portfolio:
    """Return the server after the participants of a round have trained as they chose.

    For each model j that somebody with a weight trained: w_j ← w_j − η_g m_j with the momentum
    m_j ← β m_j + Σ q_k u_k / (Σ q_k + ε), over those that trained it. Others stay. What a client
    sends is u_k = w_j − w_k, of a Byzantine one a multiple of it.
    """
    if not cohort:
        return portfolio
    models, velocities, idle = [], [], []
    for j, w in enumerate(portfolio.models):
        its_clients = [k for k in cohort if choices[k].trains == j]
        updates = [
            scaled(minus(w, sgd(w, k, gradient_of, steps, lr)), sent.get(k, 1.0))
            for k in its_clients
        ]
        weights = [
            client_weight(method, portfolio, len(clients[k][1]), choices[k].used_gap)
            for k in its_clients
        ]
        velocity = portfolio.velocities[j]
        if sum(weights) > 0.0:
            mean = combined(method, updates, weights)
            w, velocity = momentum(w, mean, velocity, server_lr, method.beta)
        models.append(w)
        velocities.append(velocity)
        idle.append(0 if its_clients else portfolio.idle[j] + len(cohort))
    gaps = [
        [choices[k].gap for k in cohort if choices[k].trains == j and choices[k].gap > 0.0]
        for j in range(len(models))
    ]
    unmet = max(gaps, key=len)
    return Portfolio(
        models,
        velocities,
        idle,
        donor=gaps.index(unmet),
        unmet_gap=sum(unmet) / len(unmet) if unmet else math.inf,
        scale=next_scale(method.tracking, portfolio.scale, [choices[k].used_gap for k in cohort]),
    )


# ----------------------------------------------------------------------------- runs to follow


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

    def _assert_scores(self, t: int, scores: Any, own: Sequence[Params]) -> None:
        """Compare scores after t rounds with those of each client's own model."""
        on_judging = [oracle.loss(w, *data) for w, data in zip(own, self.judged, strict=True)]
        on_test = [oracle.loss(w, *data) for w, data in zip(own, self.tested, strict=True)]
        right = [oracle.accuracy(w, *data) for w, data in zip(own, self.tested, strict=True)]
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
