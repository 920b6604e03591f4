"""From a requirement to ρ_k of every client, once it is known what its solo model does."""

import warnings
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from maxfl.core.criterion import Criterion
from maxfl.core.federation import Federation
from maxfl.core.requirements.client_values import ClientValues, Floats
from maxfl.core.requirements.requirement import Requirement, RequirementRule, Solo, Thresholds
from maxfl.utils.display import counted, named
from maxfl.utils.errors import InputError, TrainingWarning, did_you_mean, shorten


class Strangers(NamedTuple):
    """Clients that values name and the federation does not have: in words, and who may be meant."""

    words: str = ""
    hint: str = ""


def align(requirement: Requirement, federation: Federation) -> Requirement:
    """Return the requirement with single clients' values in the federation's order, [K]."""
    given = requirement.clients
    if given is None:
        return requirement
    if given.names is None:
        if given.judging.shape != (federation.clients,):
            raise InputError(
                f"per_client has {len(given.judging)} values, and the federation "
                f"{federation.clients} clients: give one for each, NaN for those without"
            )
        judging, test = given.judging, given.test
    else:
        judging, test = _by_name(given, federation)
    missing = np.flatnonzero(np.isnan(judging) | np.isnan(test))
    strangers = _strangers(given, federation)
    if missing.size and not requirement.has_rest:
        raise InputError(
            f"{missing.size} of {federation.clients} clients have no requirement "
            f"({named(federation.names[missing])}){strangers.words and f', and {strangers.words}'}"
            f": give them one, or say what they require, per_client(..., otherwise=maxfl.solo()) "
            f"or requirement.otherwise{strangers.hint}"
        )
    _warn_of_slips(strangers, given, federation)
    return requirement._replace(clients=ClientValues(None, judging, test))


def needs_solo(requirement: Requirement) -> bool:
    """Tell whether ρ of some client depends on what it trains alone; of an aligned requirement."""
    clients = requirement.clients
    if clients is not None and not np.isnan(clients.judging).any():
        return False
    return requirement.value is None


def thresholds(
    requirement: Requirement,
    criterion: Criterion,
    federation: Federation,
    solo: Solo,
    configurations: int,
    client_ids: Any = None,
) -> Thresholds:
    """Return thresholds of every configuration, float32[C, K], from solo results [C, K].

    Args:
        requirement: Aligned with the federation of all clients.
        criterion: What decides.
        federation: The clients whose results are given.
        solo: Their results alone.
        configurations: C.
        client_ids: Theirs among all clients, int[K]; by default they are all there are.
    """
    rest = _of_the_rest(requirement, criterion, federation, solo, configurations)
    clients = requirement.clients
    if clients is None:
        return rest
    chosen = slice(None) if client_ids is None else client_ids

    def pick(values: Floats, others: Any) -> Floats:
        return np.where(np.isnan(values[chosen]), others, values[chosen]).astype(np.float32)

    return Thresholds(pick(clients.judging, rest.judging), pick(clients.test, rest.test))


def _of_the_rest(
    requirement: Requirement,
    criterion: Criterion,
    federation: Federation,
    solo: Solo,
    configurations: int,
) -> Thresholds:
    """Return thresholds of clients that state none themselves, float32[C, K]."""
    shape = (configurations, federation.clients)
    if requirement.rule is not None:
        each = [jax.tree.map(itemgetter(c), solo) for c in range(configurations)]
        rows = [_apply(requirement.rule, federation, one) for one in each]
        return Thresholds(*(np.stack(side) for side in zip(*rows, strict=True)))
    if requirement.value is not None:
        row = _column(requirement.value, shape)
        return Thresholds(row, row)
    factor = _column(requirement.multiple, shape)
    judged = solo.judging_loss if criterion.metric is None else solo.judging_metric
    return Thresholds(factor * judged, factor * criterion.value(solo.test_loss, solo.test_metrics))


def _column(numbers: ArrayLike, shape: tuple[int, int]) -> Floats:
    """Return one number per configuration, repeated for its clients."""
    column = np.broadcast_to(np.asarray(numbers, np.float32), shape[:1])
    return np.broadcast_to(column[:, None], shape)


def _apply(rule: RequirementRule, federation: Federation, solo: Solo) -> tuple[Floats, Floats]:
    """Call a user's rule and check what it gives, for judging and for test data."""
    given = rule(federation, solo)
    is_pair = isinstance(given, tuple) and len(given) == 2 and not any(map(np.isscalar, given))
    pair: Any = given if is_pair else (given, given)
    judging, test = pair
    return _checked(judging, federation), _checked(test, federation)


def _checked(given: Any, federation: Federation) -> Floats:
    """Return a rule's numbers, one per client, or say what is wrong with them."""
    try:
        rho = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        raise InputError(
            f"the requirement's rule gave {shorten(given)}; expected one number for each of the "
            f"{federation.clients} clients, or a tuple of two such arrays"
        ) from None
    if rho.shape != (federation.clients,) or np.isnan(rho).any():
        what = f"an array of shape {rho.shape}" if rho.ndim else f"the one number {rho}"
        missing = f" with {int(np.isnan(rho).sum())} NaN" if np.isnan(rho).any() else ""
        raise InputError(
            f"the requirement's rule gave {what}{missing}; expected one number for each of the "
            f"{federation.clients} clients, or a tuple of two such arrays"
        )
    return rho


def _by_name(given: ClientValues, federation: Federation) -> tuple[Floats, Floats]:
    """Return values that are given by name in the federation's order, float32[K] each."""
    index = {name: i for i, name in enumerate(given.names or ())}
    rows = np.array([index.get(str(name), -1) for name in federation.names])
    none = np.float32(np.nan)
    judging, test = (np.where(rows < 0, none, side[rows]) for side in (given.judging, given.test))
    return judging, test


def _warn_of_slips(strangers: Strangers, given: ClientValues, federation: Federation) -> None:
    """Say that values may be others' by a slip; those of clients that were left out do no harm."""
    without = federation.clients - len({*map(str, federation.names)} & {*(given.names or ())})
    if strangers.words and without:
        warnings.warn(
            f"{strangers.words}, while {without} of its clients have none{strangers.hint}",
            TrainingWarning,
            stacklevel=5,
        )


def _strangers(given: ClientValues, federation: Federation) -> Strangers:
    """Name clients that have values and are not of the federation, if any."""
    names = {str(name): None for name in federation.names}
    unknown = [name for name in given.names or () if name not in names]
    if not unknown:
        return Strangers()
    what = f"requirements name {counted(len(unknown), 'client')} that the federation does not have"
    return Strangers(f"{what} ({named(unknown)})", did_you_mean(unknown[0], names))
