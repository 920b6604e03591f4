"""Some clients of a federation on disk at a time: their data, and what they require.

Requirements are found when clients are first read, and remembered.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from maxfl.core.algorithm import Algorithm, Client, Cohort, LocalTask, Server, WeightedSum
from maxfl.core.federation import Samples
from maxfl.core.federation_files import read_clients
from maxfl.core.judging import hold_out
from maxfl.core.model import compiled_scaling
from maxfl.core.participation import ParticipationRule, sample
from maxfl.core.prng import Purpose, key
from maxfl.core.requirements.requirement import Solo
from maxfl.core.requirements.thresholds import needs_solo, thresholds
from maxfl.engine.session import Session
from maxfl.engine.solo import best_solo, train_clients
from maxfl.engine.state import Data

UNKNOWN = -np.inf
"""In place of a requirement: no cost is lower."""


class CohortData(NamedTuple):
    """Some clients, int[n], with their data on the devices.

    ``requirement``, [1, n], is what their costs must lie below.
    """

    client_ids: NDArray[np.int64]
    data: Data
    requirement: Any


class CohortReader:
    """The clients of a federation on disk, read as they are needed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._federation = session.experiment.federation
        self._known = np.zeros(0, np.float32)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Have a thread that reads ahead."""
        with ThreadPoolExecutor(1) as self._reader:
            yield

    @cached_property
    def needs_solo(self) -> bool:
        """Whether rounds depend on ρ at all, and it must be found by training alone."""
        session, spec = self._session, self._session.spec
        params = spec.model.init(jax.random.key(0))
        return needs_solo(session.requirement) and reads_requirement(
            spec.algorithm, session.hparams.algorithm, params, spec.participation
        )

    def restore(self, client_ids: Any, requirement: Any) -> None:
        """Begin with what is known of clients' requirements, [n] each."""
        self._known = np.full(self._federation.seen, UNKNOWN, np.float32)
        self._known[client_ids] = requirement

    def save(self) -> tuple[Any, Any]:
        """Return clients whose requirement is known, int32[n], and ρ of each, float32[n]."""
        client_ids = np.flatnonzero(self._known != UNKNOWN).astype(np.int32)
        return client_ids, self._known[client_ids]

    def learn(self, cohort: CohortData) -> CohortData:
        """Remember what a cohort's clients require, and have it say what was known before.

        A client that is read ahead while another round samples it too may have trained alone twice;
        then what the earlier round found counts, whoever was faster.
        """
        if not self.needs_solo:
            return cohort
        known = self._known[cohort.client_ids]
        requirement = np.where(known == UNKNOWN, cohort.requirement[0], known)
        self._known[cohort.client_ids] = requirement
        return cohort._replace(requirement=requirement[None])

    def candidates(self, round_: int, count: int) -> NDArray[np.int64]:
        """Return the first clients in the order of a round's draw."""
        seed = jnp.uint32(self._session.hparams.seed[0])
        seen = self._federation.seen
        return np.asarray(_draw(seed, jnp.int32(round_), seen, count), np.int64)

    def read_ahead(self, round_: int) -> Future[CohortData]:
        """Read the clients that a round samples first, while something else is computed."""
        first = partial(self.candidates, round_, self._session.spec.cohort)
        return self._reader.submit(lambda: self.read(first()))

    def read(self, client_ids: NDArray[np.int64]) -> CohortData:
        """Bring clients' data to the devices, and find what they require."""
        train, judging = self._read_parts(client_ids)
        no_test = _no_samples(train, len(client_ids))
        scaling = compiled_scaling(self._federation.input_scaling, train.x)
        arrays = Data(train, no_test, scaling, (), judging)
        data = self._session.replicate(arrays)._replace(frozen=self._session.frozen)
        return CohortData(client_ids, data, self._requirement(client_ids, data))

    def _read_parts(self, client_ids: NDArray[np.int64]) -> tuple[Samples, Any]:
        """Return what clients train on, and what they judge by, () where that is the same."""
        federation, judging = self._federation, self._session.requirement.judging
        train = read_clients(federation.train, client_ids)
        if not judging.holds_out:
            return _with_room(train), ()
        if federation.judging is not None:
            return _with_room(train), _with_room(read_clients(federation.judging, client_ids))
        overlap = federation.metadata.overlap
        parts = hold_out(train, judging.fraction, client_ids, overlap)
        return _with_room(parts.train), _with_room(parts.judging)

    def _requirement(self, client_ids: NDArray[np.int64], data: Data) -> Any:
        """Return what costs of some clients must lie below, float32[1, n].

        Found by training alone, where rounds depend on it; NaN where they do not.
        """
        session = self._session
        if not self.needs_solo:
            nothing = np.full((1, len(client_ids)), np.nan, np.float32)
            unknown = Solo(nothing, nothing, (nothing,) * len(session.metric_infos), nothing)
            return self._bound(client_ids, unknown)
        known = self._known[client_ids]
        if (new := np.flatnonzero(known == UNKNOWN)).size:
            found = [
                train_clients(
                    session.solo_spec, data, session.one_by_one(way)[0], new,
                    client_ids.astype(np.int32),
                )
                for way in session.solo_ways
            ]  # fmt: skip
            best = best_solo(session.spec.criterion, found)
            solo = jax.tree.map(lambda a: a[None], best)
            known[new] = self._bound(client_ids[new], solo)[0]
        return known[None]

    def _bound(self, client_ids: NDArray[np.int64], solo: Solo) -> Any:
        """Return what costs of some clients must lie below, float32[1, n], from solo results."""
        session = self._session
        clients: Any = _Count(len(client_ids))
        found = thresholds(
            session.requirement, session.spec.criterion, clients, solo, 1, client_ids
        )
        return session.spec.criterion.bound(found.judging)


class _Count(NamedTuple):
    """What of a federation the requirements depend on."""

    clients: int


def _with_room(samples: Samples) -> Samples:
    """Return samples with room for a power of two of them, so that few programs are compiled."""
    rows = len(samples.y)
    more = (1 << max(rows - 1, 0).bit_length()) - rows
    x, y = (np.concatenate([a, np.zeros((more, *a.shape[1:]), a.dtype)]) for a in samples[:2])
    return Samples(x, y, samples.offsets)


def _no_samples(like: Samples, clients: int) -> Samples:
    """Return a cohort's test data, which training does not look at: one sample of each client."""
    offsets = np.arange(clients + 1, dtype=np.int32)
    return Samples(like.x[:clients], like.y[:clients], offsets)


@partial(jax.jit, static_argnums=(2, 3))
def _draw(seed: Any, round_: Any, seen: int, count: int) -> Any:
    client, _ = sample(key(seed, Purpose.SAMPLING, round_), jnp.ones(seen, bool), count)
    return client


def reads_requirement(
    algorithm: Algorithm, hparams: Any, params: Any, rule: ParticipationRule
) -> bool:
    """Tell whether training depends on ρ_k at all; FedAvg's does not, and nobody trains alone.

    A client with a loss of 1 is tried with a requirement that is met, and one that is not.
    """
    if rule is not ParticipationRule.EVERYONE:
        return True

    def everything(rho: Any) -> Any:
        first = jax.tree.map(lambda a: a[0], hparams)
        server, one = Server(params, algorithm.init_server(params, 1)), jnp.float32(1)
        client = Client(jnp.int32(0), jnp.int32(1), one, one, rho)
        task = LocalTask(lambda w, *_: w, 1, one)
        weight = algorithm.weight(first, server, client)
        client_state = algorithm.init_client(params)
        update, renewed = algorithm.client_update(first, server, client_state, client, task)
        cohort = Cohort(*(jnp.asarray(a)[None] for a in (0, True, one, rho, weight)))
        return renewed, algorithm.server_update(first, server, WeightedSum(update, weight), cohort)

    # Met exactly too: far from it a weight may have vanished on both sides.
    far, *others = (
        jax.tree.leaves(jax.jit(everything)(jnp.float32(rho))) for rho in (0.5, 1.0, 3.0)
    )
    pairs = (zip(far, other, strict=True) for other in others)
    return not all(np.array_equal(a, b) for pair in pairs for a, b in pair)
