"""Secure aggregation at the server: Flower's SecAgg+ between a strategy and its clients.

The protocol is Flower's, of its legacy API; ``SecAggGrid`` lets a strategy of today train through
it. A round goes through three layers: ``_LegacyStrategy`` dresses the round's messages for the
protocol and takes its sum; ``_Workflow`` is the protocol; ``CheckedGrid`` carries its four
stages and lets only good replies pass. Every client has the same weight in it, whatever it claims,
so that the plain sum comes out.
"""

import json
from collections.abc import Iterable
from logging import WARNING
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.logger import log
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.compat.common.recorddict_compat import recorddict_to_fitres
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.serverapp import Grid

from maxfl.flower import keys
from maxfl.flower.privacy import LEVELS, MODULUS, Privacy
from maxfl.flower.replies.arrays import Arrays, of_model, read_array
from maxfl.flower.replies.sort import MAX_GAP
from maxfl.flower.round_log import Event
from maxfl.flower.secure.slots import scalars_of, unpack
from maxfl.flower.sums import ModelSums, RoundSums

SHARE_THRESHOLD = 0.7
"""Share of a round's clients that must stay until its end for the sums to be read.

Above two thirds, or a server could tell two parts of them different things of who dropped out.
"""
STAGE_LISTS = {
    Stage.SHARE_KEYS: ((Key.DESTINATION_LIST, int), (Key.CIPHERTEXT_LIST, bytes)),
    Stage.UNMASK: ((Key.NODE_ID_LIST, int), (Key.SHARE_LIST, bytes)),
}
"""By stage: the two lists of one length that a reply has, and what they hold."""


class SecAggResult(NamedTuple):
    """What came of a round.

    Attributes:
        sums: None if too few clients stayed.
        levels: Steps that numbers were rounded to.
        dropouts: Clients that are not in the sums, and why.
        clients: How many are in them.
        portfolio: Sums by model, where there are several; ``sums`` then has no update.
    """

    sums: RoundSums | None
    levels: int
    dropouts: list[Event]
    clients: int = 0
    portfolio: list[ModelSums] | None = None


class SecAggGrid:
    """A grid on which training goes through SecAgg+; in everything else it is the given grid.

    Training gives no replies: ``result`` is what the last round added up to.
    """

    def __init__(self, grid: Grid, privacy: Privacy) -> None:
        self._grid, self._privacy = grid, privacy
        self.result = SecAggResult(None, LEVELS, [])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Train by secure sums; evaluate on the given grid."""
        messages = list(messages)
        if messages and messages[0].metadata.message_type != MessageType.TRAIN:
            return self._grid.send_and_receive(messages, timeout=timeout)
        self.result = sum_securely(self._grid, messages, self._privacy, timeout)
        return []


def sum_securely(
    grid: Grid, messages: Iterable[Message], privacy: Privacy, timeout: float | None
) -> SecAggResult:
    """Send a round's messages through SecAgg+ and add up what comes back."""
    messages = list(messages)
    # Numbers are whole and below the modulus; more clients leave fewer steps for each.
    levels = LEVELS >> max(0, len(messages).bit_length() - 10)
    if len(messages) < 2:
        log(WARNING, "secure aggregation takes two clients at least, and %d were sampled",
            len(messages))  # fmt: skip
        return SecAggResult(None, levels, [])  # a sum of one is no secret
    strategy = _LegacyStrategy(messages, privacy)
    shapes = [(1,), *(array.shape for array in strategy.model.values())]
    shapes.append((scalars_of(strategy.models),))
    checked = CheckedGrid(grid, shapes)
    workflow = _Workflow(
        num_shares=1.0,
        reconstruction_threshold=SHARE_THRESHOLD,
        max_weight=1.0,
        clipping_range=privacy.span,
        quantization_range=levels,
        modulus_range=MODULUS,
        timeout=timeout,
    )
    try:
        workflow(checked, strategy.context())  # type: ignore[arg-type]
    except Exception as error:  # of what clients sent; a round must not end the run
        log(WARNING, "secure aggregation failed: %s: %s", type(error).__name__, error)
    sums = strategy.sums()
    if sums is None:
        log(WARNING, "secure aggregation gave no sums: too few clients stayed")
    return SecAggResult(sums, levels, checked.dropouts, strategy.clients, strategy.portfolio_sums())


class _LegacyStrategy:
    """A strategy of the legacy API, for one round."""

    def __init__(self, messages: list[Message], privacy: Privacy) -> None:
        self._messages, self._privacy = messages, privacy
        (self._arrays,) = messages[0].content.array_records.values()
        self.model: Arrays = {name: array.numpy() for name, array in self._arrays.items()}
        (config,) = messages[0].content.config_records.values()
        models: Any = config.get(keys.MODELS, 1)
        self.models: int = models
        self._total: list[Any] | None = None
        self.clients = 0

    def context(self) -> LegacyContext:
        """Return what the workflow is called with."""
        plain = Context(run_id=0, node_id=0, node_config={}, state=RecordDict(), run_config={})
        context: Any = LegacyContext(plain, strategy=self)  # type: ignore[arg-type]
        (config,) = self._messages[0].content.config_records.values()
        context.state[MAIN_CONFIGS_RECORD] = ConfigRecord(
            {WorkflowKey.CURRENT_ROUND: config["server-round"]}
        )
        context.state[MAIN_PARAMS_RECORD] = self._arrays
        return context

    def configure_fit(self, *_: Any) -> list[tuple[Any, FitIns]]:
        """Return the round's messages in the legacy form."""
        parameters = ndarrays_to_parameters(list(self.model.values()))
        extra = {
            keys.ARRAY_NAMES: json.dumps(list(self.model)),
            keys.CLIP: self._privacy.clip,
            keys.HIDES_FAILURES: self._privacy.private,
        }
        requests = []
        for message in self._messages:
            (config,) = message.content.config_records.values()
            node = SimpleNamespace(node_id=message.metadata.dst_node_id)
            request = FitIns(parameters, {**config, **extra})  # type: ignore[dict-item]
            requests.append((node, request))
        return requests

    def aggregate_fit(self, _: int, results: list[Any], *_rest: Any) -> tuple[None, dict[str, Any]]:
        """Take the sum of all terms; every result has been given the same one."""
        self.clients = len(results)
        if results:
            self._total = parameters_to_ndarrays(results[0][1].parameters)
        return None, {}

    def sums(self) -> RoundSums | None:
        """Return the sums over the clients that stayed, None if the protocol failed."""
        if self._total is None:
            return None
        *arrays, scalars = self._total
        update: Arrays = {}
        if self.models > 1:
            found = unpack(scalars, self.models)
            scalars = [sum(found.weights), *found.rest]
        else:
            update = dict(zip(self.model, arrays, strict=True))
        weight, *quarters = scalars
        satisfied, declined, responded, near, share = (4 * quarter for quarter in quarters)
        return RoundSums(
            update, float(weight), satisfied, declined, responded, near, MAX_GAP * share
        )

    def portfolio_sums(self) -> list[ModelSums] | None:
        """Return the sums by model, None of one model or if the protocol failed."""
        if self._total is None or self.models == 1:
            return None
        *arrays, scalars = self._total
        found, update = unpack(scalars, self.models), dict(zip(self.model, arrays, strict=True))
        by_model = zip(found.weights, found.clients, found.unmet, found.unmet_gaps, strict=True)
        return [ModelSums(of_model(update, j), *slot) for j, slot in enumerate(by_model)]


class _Workflow(SecAggPlusWorkflow):
    """Flower's protocol, in which clients that are lost before they have shared keys are forgotten.

    Flower 1.41 asks the others for shares of theirs, which they never got, and so all would fail.
    """

    def setup_stage(self, grid: Grid, context: LegacyContext, state: Any) -> bool:
        """Collect public keys."""
        return super().setup_stage(grid, context, state) and _forget_lost(state)

    def share_keys_stage(self, grid: Grid, context: LegacyContext, state: Any) -> bool:
        """Share secret keys; whoever is lost afterwards is taken out with their help."""
        return super().share_keys_stage(grid, context, state) and _forget_lost(state)

    def unmask_stage(self, grid: Grid, context: LegacyContext, state: Any) -> bool:
        """Take the masks off the sum, in which all clients weigh the same."""
        state.quantization_range = _EqualWeights(state.quantization_range)
        return super().unmask_stage(grid, context, state)


class _EqualWeights(int):
    """Levels for Flower, which divides them by the sum of the weights that clients claim.

    All clients of ours claim 1. One that claimed another would scale everybody's terms, beyond
    what noise hides; so nothing is divided, and the weighted average is the sum.
    """

    def __truediv__(self, _: int) -> float:
        return 1.0


def _forget_lost(state: Any) -> bool:
    """Go on with the clients that are left; return whether they are enough."""
    active = set(state.active_node_ids)
    state.sampled_node_ids = active
    state.nid_to_neighbours = {node: state.nid_to_neighbours[node] & active for node in active}
    return len(active) >= 2


class CheckedGrid:
    """A grid for one round of SecAgg+ that lets only good replies pass.

    Attributes:
        dropouts: Clients that failed on the way, and how.
    """

    def __init__(self, grid: Grid, shapes: list[tuple[int, ...]]) -> None:
        self._grid, self._shapes = grid, shapes
        self.dropouts: list[Event] = []

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send a stage's messages; return the replies that are whole."""
        messages = list(messages)
        silent = {message.metadata.dst_node_id for message in messages}
        # Before they are sent: who answers in this process takes the stage out of its message.
        stage = str(messages[0].content[RECORD_KEY_CONFIGS][Key.STAGE])  # type: ignore[index]
        good = []
        for reply in self._grid.send_and_receive(messages, timeout=timeout):
            node = reply.metadata.src_node_id
            silent.discard(node)
            if reply.has_error():
                self.dropouts.append(Event.of(node, "failed", reply.error.reason))
            elif problem := self._wrong_reply(stage, reply):
                reason = f"secure aggregation: {problem}"
                self.dropouts.append(Event.of(node, "rejected", reason))
            else:
                good.append(reply)
        self.dropouts += [Event.of(node, "failed", "no answer in time") for node in sorted(silent)]
        return good

    def _wrong_reply(self, stage: str, reply: Message) -> str:
        """Return what is wrong with a reply, "" if nothing is."""
        record = reply.content.config_records.get(RECORD_KEY_CONFIGS)
        if record is None:
            return f"a reply without {RECORD_KEY_CONFIGS}"
        if stage == Stage.SETUP:
            public_keys = (record.get(Key.PUBLIC_KEY_1), record.get(Key.PUBLIC_KEY_2))
            return "" if all(isinstance(key, bytes) for key in public_keys) else "no public keys"
        if stage == Stage.COLLECT_MASKED_VECTORS:
            return self._wrong_vectors(record.get(Key.MASKED_PARAMETERS), reply)
        return _wrong_lists(stage, record)

    def _wrong_vectors(self, vectors: Any, reply: Message) -> str:
        if not _is_list(vectors, bytes) or len(vectors) != len(self._shapes):
            return f"expected {len(self._shapes)} masked vectors"
        for data, shape in zip(vectors, self._shapes, strict=True):
            array = read_array(data, shape, np.dtype(np.int64))
            if isinstance(array, str):
                return f"a masked vector {array}; are its model and its maxfl the server's?"
        try:
            recorddict_to_fitres(reply.content, keep_input=True)
        except Exception as error:  # whatever a forged reply may raise
            return f"{type(error).__name__}: {error}"
        return ""


def _wrong_lists(stage: str, record: ConfigRecord) -> str:
    (first_key, first_type), (second_key, second_type) = STAGE_LISTS[stage]
    first: Any = record.get(first_key)
    second: Any = record.get(second_key)
    if not _is_list(first, first_type) or not _is_list(second, second_type):
        return f"{first_key} and {second_key} are not as they should be"
    return "" if len(first) == len(second) else f"{first_key} and {second_key} differ in length"


def _is_list(value: Any, item_type: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, item_type) for item in value)
