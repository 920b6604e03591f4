"""Which models of a portfolio a node is sent: all of them, or only the one that it reported last.

All of them make a message K times as long. The one alone makes it as long as without a portfolio,
but a client can't pick another until it is sent all again, every so many rounds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from maxfl.flower import keys
from maxfl.flower.replies.arrays import Arrays, of_model, stack, to_arrays, to_record
from maxfl.utils.errors import InputError, check_number

ALL, PICKED = "all", "picked"


class Offers(NamedTuple):
    """When nodes are sent all models.

    Attributes:
        message: "all", in every round, or "picked", only the one that a node reported last.
        after: With "picked": rounds at the beginning with all models.
        refresh: With "picked": of so many rounds after those, the last has all models too.
    """

    message: str = ALL
    after: int = 3
    refresh: int = 10

    def has_all(self, number: int) -> bool:
        """Return whether everybody is sent all models in a round, counted from 1."""
        later = number - self.after
        return self.message == ALL or later <= 0 or later % self.refresh == 0


def check_offers(offers: Offers) -> None:
    """Refuse what can't be meant."""
    if offers.message not in (ALL, PICKED):
        raise InputError(
            f'portfolio_message = {offers.message!r:.60}: expected "{ALL}", which sends all models '
            f'in every round, or "{PICKED}", which sends a client only the one that it picked last'
        )
    check_number("portfolio_after", offers.after, least=1, whole=True)
    check_number("portfolio_refresh", offers.refresh, least=1, whole=True)


def address(messages: Iterable[Message], sent: Arrays, known: Mapping[int, int]) -> None:
    """Leave of the models in some messages only the one that is known of their node, if one is."""
    records: dict[int, ArrayRecord] = {}
    for message in messages:
        number = known.get(message.metadata.dst_node_id)
        if number is None:
            continue
        if number not in records:
            alone = of_model(sent, number)
            records[number] = to_record({n: np.asarray(a, order="C") for n, a in alone.items()})
        content: RecordDict = message.content
        (arrays_key,), ((config_key, config),) = (
            content.array_records,
            content.config_records.items(),
        )
        message.content = RecordDict({
            arrays_key: records[number],
            config_key: ConfigRecord({**config, keys.MODEL: number}),
        })  # fmt: skip


def initial_models(models: int, given: Any) -> ArrayRecord:
    """Return what a federation starts from: a model, or several with a leading axis [models]."""
    if models == 1:
        if isinstance(given, list) and len(given) == 1:  # of a number of models that is configured
            (given,) = given
        if not isinstance(given, ArrayRecord):
            raise InputError(
                f"initial_arrays is of type {type(given).__name__}: expected an ArrayRecord; "
                f"several models need MaxFL(portfolio=maxfl.portfolio(models=3)), say"
            )
        return given
    each = [] if isinstance(given, ArrayRecord) or not isinstance(given, Sequence) else list(given)
    if len(each) != models or not all(isinstance(one, ArrayRecord) for one in each):
        found = f"a list of {len(each)}" if each else f"one of type {type(given).__name__}"
        raise InputError(
            f"initial_arrays is {found}, and the portfolio has {models} models: give start() a "
            f"list of {models} ArrayRecords, each a draw of its own"
        )
    drawn = [to_arrays(one) for one in each]
    _check_alike(drawn)
    return to_record(stack(drawn))


def split_models(arrays: ArrayRecord) -> list[ArrayRecord]:
    """Return the models of a portfolio one by one, from arrays with a leading axis [models]."""
    models = to_arrays(arrays)
    counts = {array.shape[0] if array.ndim else 0 for array in models.values()}
    if len(counts) != 1 or not min(counts):
        raise InputError(
            "these arrays are not those of a portfolio, which have a leading axis of one length"
        )
    return [
        to_record({n: np.asarray(a, order="C") for n, a in of_model(models, j).items()})
        for j in range(min(counts))
    ]


def _check_alike(models: list[Arrays]) -> None:
    """Refuse models that differ in more than their numbers, or not even in these."""
    first = models[0]
    for number, model in enumerate(models):
        kinds, expected = (
            {name: (array.shape, array.dtype) for name, array in one.items()}
            for one in (model, first)
        )
        if kinds != expected:
            raise InputError(
                f"initial_arrays[{number}] has other arrays than the first model: models of a "
                f"portfolio differ in their numbers alone"
            )
    if all(np.array_equal(w, model[n]) for model in models for n, w in first.items()):
        raise InputError(
            "the models of initial_arrays are all the same, so that no client could prefer one: "
            "draw each on its own"
        )
