"""The server's part in secure aggregation: Flower's SecAgg+ between a strategy and its clients.

The workflow is Flower's own, of its legacy API; what is here dresses a round's messages for it.
Every client has the same weight there, so that its average, times their number, is the plain sum.
"""

import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.serverapp import Grid

from maxfl.flower import terms
from maxfl.flower.privacy import LEVELS, Privacy
from maxfl.flower.tally import Tally

SHARE_THRESHOLD = 0.5
"""Of a round's clients, those that must stay until the end for the sums to be read."""


class SecureTally(NamedTuple):
    """What came of a round: the sums, None if too few clients stayed, and how many are in them."""

    sums: Tally | None
    clients: int


def secure_tally(
    grid: Grid, messages: Iterable[Message], privacy: Privacy, timeout: float | None
) -> SecureTally:
    """Send a round's messages through SecAgg+ and add up what comes back."""
    every = list(messages)
    if len(every) < 2:
        return SecureTally(None, 0)  # a sum of one is no secret
    arrays = {n: a.numpy() for n, a in next(iter(every[0].content.array_records.values())).items()}
    round_ = _Round(every, arrays, privacy)
    SecAggPlusWorkflow(
        num_shares=1.0,
        reconstruction_threshold=SHARE_THRESHOLD,
        max_weight=1.0,
        clipping_range=privacy.span,
        quantization_range=LEVELS,
        timeout=timeout,
    )(grid, round_.context())
    if round_.average is None:
        return SecureTally(None, 0)
    *weighted, bits = (np.asarray(a) * round_.clients for a in round_.average)
    named = {n: own.astype(a.dtype) for (n, a), own in zip(arrays.items(), weighted, strict=True)}
    return SecureTally(Tally(named, float(bits[0]), 4 * bits[1], 4 * bits[2]), round_.clients)


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
            {Key.CURRENT_ROUND: config["server-round"]}
        )
        (context.state[MAIN_PARAMS_RECORD],) = self._messages[0].content.array_records.values()
        return context

    def configure_fit(self, *_: Any) -> list[tuple[Any, FitIns]]:
        """The round's messages."""
        parameters = ndarrays_to_parameters(list(self._arrays.values()))
        extra = {terms.NAMES: json.dumps(list(self._arrays)), terms.CLIP: self._clip}
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
        self.tally = SecureTally(None, 0)

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
