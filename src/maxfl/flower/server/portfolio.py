"""A portfolio at the server: what it knows of its models, and which of them starts anew.

The rules are those of the simulation, ``maxfl.core.portfolio``: who trained what is counted, a
model that nobody trains starts anew as a copy of the donor, the one that most of the clients that
were not satisfied trained, and clients are told so.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from flwr.app import ArrayRecord, Message

from maxfl.core.portfolio import PortfolioState, init_portfolio, next_state, vacancy
from maxfl.core.portfolio import start_anew as replaced_models
from maxfl.flower import keys
from maxfl.flower.aggregation import RoundTotal
from maxfl.flower.config import StrategyConfig
from maxfl.flower.replies.arrays import Arrays, to_arrays, to_record
from maxfl.flower.replies.sort import AcceptedReply
from maxfl.flower.round_log import ClientEvaluation
from maxfl.flower.server.offers import PICKED, address
from maxfl.flower.server.step import moments_of


class KnownPortfolio(NamedTuple):
    """What the server knows between rounds.

    Attributes:
        state: Of the models.
        picked: The model that each node reported last, where nodes are sent that one alone.
    """

    state: PortfolioState
    picked: dict[int, int]


class OneModel:
    """A federation with one model: nothing is picked, and nothing more is sent or known.

    Attributes:
        known: What outlives a round.
        offered: The models that each node of the messages at work may use; None where there is one.
    """

    known: KnownPortfolio | None = None
    offered: Mapping[int, Collection[int]] | None = None

    def begin_round(self, arrays: ArrayRecord, moments: Arrays) -> tuple[ArrayRecord, Arrays]:
        """Return models and moments with one started anew, if it is time."""
        return arrays, moments

    def instructions(self, *, training: bool) -> dict[str, float]:  # noqa: ARG002
        """Return what clients are told beside the models."""
        return {}

    def address(self, messages: list[Message], number: int, sent: Arrays) -> list[Message]:  # noqa: ARG002
        """Return messages with the models that nodes are to have in a round, counted from 1."""
        return messages

    def note_training(
        self, total: RoundTotal, accepted: Iterable[AcceptedReply], *, counts_enough: bool
    ) -> None:
        """Note who trained which model; ``counts_enough``: whether that tells something."""

    def note_evaluation(self, evaluations: Iterable[ClientEvaluation]) -> None:
        """Note who evaluated which model."""


class SeveralModels(OneModel):
    """The models of a portfolio, round by round."""

    known: KnownPortfolio

    def __init__(self, config: StrategyConfig) -> None:
        self._hparams, self._offers = config.portfolio_hparams, config.offers
        self._models = config.models
        self.known = KnownPortfolio(init_portfolio(config.models), {})
        self._vacant = vacancy(self._hparams, self.known.state)

    def begin_round(self, arrays: ArrayRecord, moments: Arrays) -> tuple[ArrayRecord, Arrays]:
        """Return models and moments with one started anew, if it is time."""
        self._vacant = vacancy(self._hparams, self.known.state)
        if not self._vacant.is_open:
            return arrays, moments
        # The rule on the models' numbers, so that arrays keep their types.
        numbers = jnp.arange(self._models)
        source = np.asarray(replaced_models(self._vacant, self.known.state, numbers))
        vacant = int(self._vacant.model)
        # Who had picked it does not know it any more.
        picked = {n: j for n, j in self.known.picked.items() if j != vacant}
        self.known = self.known._replace(picked=picked)
        renewed = {
            f"{number}/{name}": array
            for number, origin in enumerate(source)
            for name, array in moments_of(moments, int(origin)).items()
        }
        models = {name: array[source] for name, array in to_arrays(arrays).items()}
        return to_record(models), renewed

    def instructions(self, *, training: bool) -> dict[str, float]:
        """Return what clients are told beside the models."""
        config: dict[str, float] = {keys.MODELS: self._models}
        if training and self._hparams.patience > 0:
            config[keys.UNMET_GAP] = float(self.known.state.unmet_gap)
        if training and self._vacant.is_open:
            config[keys.VACANT] = int(self._vacant.model)
            config[keys.DONOR] = int(self.known.state.donor)
        return config

    def address(self, messages: list[Message], number: int, sent: Arrays) -> list[Message]:
        """Return messages with the models that nodes are to have in a round, counted from 1."""
        known: Mapping[int, int] = {} if self._offers.has_all(number) else self.known.picked
        address(messages, sent, known)
        nodes = [message.metadata.dst_node_id for message in messages]
        self.offered = {node: self._may_use(known.get(node)) for node in nodes}
        return messages

    def _may_use(self, number: int | None) -> frozenset[int]:
        if number is None:
            return frozenset(range(self._models))
        twins = {int(self._vacant.model), int(self.known.state.donor)}
        return frozenset({number} | (twins if self._vacant.is_open and number in twins else set()))

    def note_training(
        self, total: RoundTotal, accepted: Iterable[AcceptedReply], *, counts_enough: bool
    ) -> None:
        """Note who trained which model; ``counts_enough``: whether that tells something."""
        accepted = list(accepted)
        self._forget(set(self.offered or {}) - {reply.node for reply in accepted})
        self._note_picks(accepted)
        self._vacant = self._vacant._replace(is_open=jnp.bool_(False))  # evaluations have no twins
        if not counts_enough or total.portfolio is None:
            return
        clients = jnp.array(total.clients_by_model, jnp.int32)
        # Rounding in secure sums may bring them below 0.
        unmet = jnp.array([max(round(each.unmet), 0) for each in total.portfolio], jnp.int32)
        gaps = jnp.array([max(each.unmet_gaps, 0.0) for each in total.portfolio], jnp.float32)
        state = next_state(self.known.state, clients, unmet, gaps)
        self.known = self.known._replace(state=state)

    def note_evaluation(self, evaluations: Iterable[ClientEvaluation]) -> None:
        """Note who evaluated which model."""
        self._note_picks(evaluations)

    def _forget(self, nodes: Collection[int]) -> None:
        """Send nodes all models next time whose reply does not count: theirs may have diverged."""
        picked = {n: j for n, j in self.known.picked.items() if n not in nodes}
        self.known = self.known._replace(picked=picked)

    def _note_picks(self, said: Iterable[AcceptedReply | ClientEvaluation]) -> None:
        """Note which model nodes reported, where they may be sent that one alone."""
        if self._offers.message == PICKED:
            picked = self.known.picked | {one.node: one.model for one in said}
            self.known = self.known._replace(picked=picked)


def begin_models(config: StrategyConfig) -> OneModel:
    """Return what is known of a federation's models before the first round."""
    return SeveralModels(config) if config.has_portfolio else OneModel()


def portfolio_to_plain(known: KnownPortfolio | None) -> dict[str, Any] | None:
    """Return what is known as JSON holds it to the last bit."""
    if known is None:
        return None
    idle, donor, gap = known.state
    mean = float(gap)
    return {
        "idle": [int(rounds) for rounds in idle],
        "donor": int(donor),
        "unmet_gap": None if math.isinf(mean) else mean,
        "picked": {str(node): model for node, model in known.picked.items()},
    }


def portfolio_from_plain(content: Any) -> KnownPortfolio | None:
    """Return what ``portfolio_to_plain`` made plain."""
    if content is None:
        return None
    gap = content["unmet_gap"]
    state = PortfolioState(
        jnp.array(content["idle"], jnp.int32),
        jnp.int32(content["donor"]),
        jnp.float32(jnp.inf if gap is None else gap),
    )
    return KnownPortfolio(state, {int(node): j for node, j in content["picked"].items()})
