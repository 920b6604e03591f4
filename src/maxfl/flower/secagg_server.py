"""The server's part in secure aggregation: Flower's SecAgg+ between a strategy and its clients.

The workflow is Flower's own, of its legacy API; what is here dresses a round's messages for it.
Every client has the same weight there, so that its average, times their number, is the plain sum.
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
from maxfl.flower.privacy import LEVELS, Privacy
from maxfl.flower.replies import read_array
from maxfl.flower.round_log import Event
from maxfl.flower.sums import Tally

SHARE_THRESHOLD = 0.7
"""Share of a round's clients that must stay until its end for the sums to be read.

Above two thirds, or a server could tell two parts of them different things of who dropped out.
"""


class SecureTally(NamedTuple):
    """What came of a round.

    Attributes:
        sums: None if too few clients stayed.
        levels: Steps that numbers were rounded to.
        lost: Who is not in the sums, and why.
    """

    sums: Tally | None
    levels: int
    lost: list[Event]


def secure_tally(
    grid: Grid, messages: Iterable[Message], privacy: Privacy, timeout: float | None
) -> SecureTally:
    """Send a round's messages through SecAgg+ and add up what comes back."""
    every = list(messages)
    # Numbers are whole and below 2³²; more clients leave fewer steps for each.
    levels = LEVELS >> max(0, len(every).bit_length() - 10)
    if len(every) < 2:
        return SecureTally(None, levels, [])  # a sum of one is no secret
    arrays = {n: a.numpy() for n, a in next(iter(every[0].content.array_records.values())).items()}
    shapes = [(1,), *(a.shape for a in arrays.values()), (len(Tally._fields) - 1,)]
    checked, round_ = CheckedGrid(grid, shapes), _Round(every, arrays, privacy)
    workflow = _Workflow(
        num_shares=1.0,
        reconstruction_threshold=SHARE_THRESHOLD,
        max_weight=1.0,
        clipping_range=privacy.span,
        quantization_range=levels,
        timeout=timeout,
    )
    try:
        workflow(checked, round_.context())  # type: ignore[arg-type]
    except Exception as error:  # of what clients sent; a round must not end the run
        log(WARNING, "secure aggregation failed: %s: %s", type(error).__name__, error)
    if round_.average is None:
        return SecureTally(None, levels, checked.lost)
    *weighted, bits = (np.asarray(a) * round_.clients for a in round_.average)
    named = dict(zip(arrays, weighted, strict=True))
    sums = Tally(named, float(bits[0]), 4 * bits[1], 4 * bits[2], 4 * bits[3])
    return SecureTally(sums, levels, checked.lost)


class _Workflow(SecAggPlusWorkflow):
    """Flower's protocol, in which clients that are lost before they have shared keys are forgotten.

    Flower 1.41 asks the others for shares of theirs, which they never got, and so all would fail.
    """

    def setup_stage(self, grid: Grid, context: LegacyContext, state: Any) -> bool:
        """Public keys."""
        return super().setup_stage(grid, context, state) and _forget_lost(state)

    def share_keys_stage(self, grid: Grid, context: LegacyContext, state: Any) -> bool:
        """Shares of secret keys; whoever is lost afterwards is taken out with their help."""
        return super().share_keys_stage(grid, context, state) and _forget_lost(state)


def _forget_lost(state: Any) -> bool:
    there = set(state.active_node_ids)
    state.sampled_node_ids = there
    state.nid_to_neighbours = {n: state.nid_to_neighbours[n] & there for n in there}
    return len(there) >= 2


class _Round:
    """A legacy strategy for one round: gives the workflow its messages and takes the average."""

    def __init__(self, messages: list[Message], arrays: dict[str, Any], privacy: Privacy) -> None:
        self._messages, self._arrays, self._clip = messages, arrays, privacy.clip
        self.average: list[Any] | None = None
        self.clients = 0

    def context(self) -> LegacyContext:
        """What the workflow wants to be called with."""
        plain = Context(run_id=0, node_id=0, node_config={}, state=RecordDict(), run_config={})
        context: Any = LegacyContext(plain, strategy=self)  # type: ignore[arg-type]
        (config,) = self._messages[0].content.config_records.values()
        context.state[MAIN_CONFIGS_RECORD] = ConfigRecord(
            {WorkflowKey.CURRENT_ROUND: config["server-round"]}
        )
        (context.state[MAIN_PARAMS_RECORD],) = self._messages[0].content.array_records.values()
        return context

    def configure_fit(self, *_: Any) -> list[tuple[Any, FitIns]]:
        """The round's messages."""
        parameters = ndarrays_to_parameters(list(self._arrays.values()))
        extra = {keys.NAMES: json.dumps(list(self._arrays)), keys.CLIP: self._clip}
        found = []
        for message in self._messages:
            (config,) = message.content.config_records.values()
            node = SimpleNamespace(node_id=message.metadata.dst_node_id)
            found.append((node, FitIns(parameters, {**config, **extra})))  # type: ignore[dict-item]
        return found

    def aggregate_fit(self, _: int, results: list[Any], *_rest: Any) -> tuple[None, dict[str, Any]]:
        """The average of all terms; every result has been given the same one."""
        self.clients = len(results)
        if results:
            self.average = parameters_to_ndarrays(results[0][1].parameters)
        return None, {}


class SecureGrid:
    """A grid on which training goes through SecAgg+; everything else is the grid's own.

    Training gives no replies: ``tally`` is what the last round added up to.
    """

    def __init__(self, grid: Grid, privacy: Privacy) -> None:
        self._grid, self._privacy = grid, privacy
        self.tally = SecureTally(None, LEVELS, [])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Training by secure sums, evaluation as ever."""
        every = list(messages)
        if every and every[0].metadata.message_type != MessageType.TRAIN:
            return self._grid.send_and_receive(every, timeout=timeout)
        self.tally = secure_tally(self._grid, every, self._privacy, timeout)
        return []


LISTS = {
    Stage.SHARE_KEYS: ((Key.DESTINATION_LIST, int), (Key.CIPHERTEXT_LIST, bytes)),
    Stage.UNMASK: ((Key.NODE_ID_LIST, int), (Key.SHARE_LIST, bytes)),
}
"""By stage: two lists of one length, and what they hold."""


class CheckedGrid:
    """A grid for one round of SecAgg+ that lets only good replies pass.

    Attributes:
        lost: Who failed on the way, and how.
    """

    def __init__(self, grid: Grid, shapes: list[tuple[int, ...]]) -> None:
        self._grid, self._shapes = grid, shapes
        self.lost: list[Event] = []

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send a stage's messages; gives the replies that are whole."""
        every = list(messages)
        silent = {message.metadata.dst_node_id for message in every}
        # Before they are sent: who answers in this process takes the stage out of its message.
        stage = str(every[0].content[RECORD_KEY_CONFIGS][Key.STAGE])  # type: ignore[index]
        good = []
        for reply in self._grid.send_and_receive(every, timeout=timeout):
            node = reply.metadata.src_node_id
            silent.discard(node)
            if reply.has_error():
                self.lost.append(Event.of(node, "failed", reply.error.reason))
            elif why := self._wrong(stage, reply):
                self.lost.append(Event.of(node, "rejected", f"secure aggregation: {why}"))
            else:
                good.append(reply)
        self.lost += [Event.of(node, "failed", "no answer in time") for node in sorted(silent)]
        return good

    def _wrong(self, stage: str, reply: Message) -> str:
        """What is wrong with a reply, "" if nothing is."""
        told = reply.content.config_records.get(RECORD_KEY_CONFIGS)
        if told is None:
            return f"a reply without {RECORD_KEY_CONFIGS}"
        if stage == Stage.SETUP:
            keys = (told.get(Key.PUBLIC_KEY_1), told.get(Key.PUBLIC_KEY_2))
            return "" if all(isinstance(key, bytes) for key in keys) else "no public keys"
        if stage == Stage.COLLECT_MASKED_VECTORS:
            return self._wrong_vectors(told.get(Key.MASKED_PARAMETERS), reply)
        (first, of_first), (second, of_second) = LISTS[stage]
        lists = (told.get(first), told.get(second))
        if not _is_list(lists[0], of_first) or not _is_list(lists[1], of_second):
            return f"{first} and {second} are not as they should be"
        same = len(lists[0]) == len(lists[1])  # type: ignore[arg-type]
        return "" if same else f"{first} and {second} differ in length"

    def _wrong_vectors(self, vectors: Any, reply: Message) -> str:
        if not _is_list(vectors, bytes) or len(vectors) != len(self._shapes):
            return f"want {len(self._shapes)} masked vectors"
        for data, shape in zip(vectors, self._shapes, strict=True):
            read = read_array(data, shape, np.dtype(np.int64))
            if isinstance(read, str):
                return f"a masked vector {read}"
        try:
            recorddict_to_fitres(reply.content, keep_input=True)
        except Exception as error:  # whatever a forged reply may raise
            return f"{type(error).__name__}: {error}"
        return ""


def _is_list(value: Any, of: type) -> bool:
    return isinstance(value, list) and all(isinstance(own, of) for own in value)
