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

from maxfl.core.algorithm import Algorithm, Client, Cohort, Server, Total, Work
from maxfl.core.federation import Samples
from maxfl.core.federation_files import read_clients
from maxfl.core.participation import Rule, sample
from maxfl.core.prng import Purpose, key
from maxfl.core.requirement import thresholds
from maxfl.engine.simulation import Simulation
from maxfl.engine.solo import solo_results
from maxfl.engine.spec import Data

NOT_ASKED = -1.0
"""In place of a requirement; losses are not negative."""


class Window(NamedTuple):
    """Some clients, int[n], with their data on the devices and their requirement, [1, n]."""

    clients: NDArray[np.int64]
    data: Data
    requirement: Any


class Windows:
    """The clients of a simulation whose data are on disk, read as they are wanted."""

    def __init__(self, own: Simulation) -> None:
        self._own = own
        self._known = np.zeros(0, np.float32)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Have a thread that reads ahead."""
        with ThreadPoolExecutor(1) as self._reader:
            yield

    @cached_property
    def requires(self) -> bool:
        """Whether rounds depend on ρ at all, and it must be found by training alone."""
        own = self._own
        params = own.spec.model.init(jax.random.key(0))
        return own.plan.requirement.loss is None and reads_requirement(
            own.spec.algorithm, own.numbers.hyper, params, own.spec.rule
        )

    def remember(self, clients: Any, requirement: Any) -> None:
        """Begin with what is known of clients, [n] each."""
        self._known = np.full(self._own.federation.seen, NOT_ASKED, np.float32)
        self._known[clients] = requirement

    def remembered(self) -> tuple[Any, Any]:
        """Clients whose requirement is known, int32[n], and ρ of each of them, float32[n]."""
        clients = np.flatnonzero(self._known != NOT_ASKED).astype(np.int32)
        return clients, self._known[clients]

    def learn(self, window: Window) -> Window:
        """Remember what a window's clients require, and have it say what was known before.

        A client that is read ahead while another round asks it too may have trained alone twice;
        then what the earlier round found counts, whoever was faster.
        """
        if not self.requires:
            return window
        known = self._known[window.clients]
        requirement = np.where(known == NOT_ASKED, window.requirement[0], known)
        self._known[window.clients] = requirement
        return window._replace(requirement=requirement[None])

    def candidates(self, round_: int, count: int) -> NDArray[np.int64]:
        """The first clients in the order of a round's draw: the engine's, if all are willing."""
        own = self._own
        seed = jnp.uint32(own.numbers.seed[0])
        return np.asarray(_draw(seed, jnp.int32(round_), own.federation.seen, count), np.int64)

    def ahead(self, round_: int) -> Future[Window]:
        """Read the clients that a round asks first, while something else is computed."""
        first = partial(self.candidates, round_, self._own.training.cohort)
        return self._reader.submit(lambda: self.read(first()))

    def read(self, clients: NDArray[np.int64]) -> Window:
        """Bring clients' data to the devices, and find what they require."""
        federation = self._own.federation
        train = federation.train
        rows = int((train.offsets[clients + 1] - train.offsets[clients]).sum())
        # A power of two, so that few programs are compiled.
        own = read_clients(train, clients, 1 << max(rows - 1, 0).bit_length())
        whole = Data(own, _no_samples(own, len(clients)), federation.decoding)
        data = self._own.everywhere(whole)
        return Window(clients, data, self._requirement(clients, data))

    def _requirement(self, clients: NDArray[np.int64], data: Data) -> Any:
        """ρ of some clients, float32[1, n]: by training alone, where rounds depend on it."""
        own = self._own
        wanted = own.plan.requirement
        if not self.requires:
            loss = np.nan if wanted.loss is None else np.asarray(wanted.loss)
            return np.full((1, len(clients)), loss, np.float32)
        known = self._known[clients]
        if (new := np.flatnonzero(known == NOT_ASKED)).size:
            names = clients.astype(np.int32)
            found = solo_results(own.alone, data, own.numbers, 0, new, names)
            alone = jax.tree.map(lambda a: a[None], found)
            known[new] = thresholds(wanted, _Count(len(new)), alone, 1).train[0]  # type: ignore[arg-type]
        return known[None]


class _Count(NamedTuple):
    """What of a federation the requirements depend on."""

    clients: int


def _no_samples(like: Samples, clients: int) -> Samples:
    """A cohort's test data, which training does not look at: one sample of each client."""
    offsets = np.arange(clients + 1, dtype=np.int32)
    return Samples(like.x[:clients], like.y[:clients], offsets)


@partial(jax.jit, static_argnums=(2, 3))
def _draw(seed: Any, round_: Any, seen: int, count: int) -> Any:
    client, _ = sample(key(seed, Purpose.SAMPLING, round_), jnp.ones(seen, bool), count)
    return client


def reads_requirement(algorithm: Algorithm, hyper: Any, params: Any, rule: Rule) -> bool:
    """Whether training depends on ρ_k at all; FedAvg's does not, and then nobody trains alone.

    A client with a loss of 1 is tried with a requirement that is met, and one that is not.
    """
    if rule is not Rule.EVERYONE:
        return True

    def all_of_it(rho: Any) -> Any:
        own = jax.tree.map(lambda a: a[0], hyper)
        server, one = Server(params, algorithm.init(params, 1)), jnp.float32(1)
        client = Client(jnp.int32(0), jnp.int32(1), one, one, rho)
        work = Work(lambda w, *_: w, 1, one)
        weight = algorithm.weight(own, server, client)
        update, kept = algorithm.local(own, server, algorithm.memory(params), client, work)
        cohort = Cohort(*(jnp.asarray(a)[None] for a in (0, True, one, rho, weight)))
        return kept, algorithm.server(own, server, Total(update, weight), cohort)

    # Met exactly too: far from it a weight may have vanished on both sides.
    far, *others = (
        jax.tree.leaves(jax.jit(all_of_it)(jnp.float32(rho))) for rho in (0.5, 1.0, 3.0)
    )
    pairs = (zip(far, other, strict=True) for other in others)
    return not all(np.array_equal(a, b) for pair in pairs for a, b in pair)
