"""Replies of SecAgg+'s stages, checked one by one before Flower's workflow sees them.

It takes for granted that every reply is whole; one that is not would end the round for all.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import Message
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.compat.common.recorddict_compat import recorddict_to_fitres
from flwr.serverapp import Grid

from maxfl.flower.record import Event
from maxfl.flower.wire import read_array

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
