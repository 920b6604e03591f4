"""Several processes that run one simulation: what they tell each other.

Every process runs the same program on its own devices, and JAX spreads arrays over all of them.
Process 0 alone has the folder of results and prints. What it reads there it shares with the others,
so they need no common file system. Everything here that speaks to the others must be called by all
of them, in the same order; with one process, all of it is as if it were not there.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from maxfl.utils.dicts import differences, written_first
from maxfl.utils.errors import InputError
from maxfl.utils.files import digest

T = TypeVar("T")
BROKEN = ("gloo", "nccl", "coordination service", "connection closed", "connection reset")
"""Words of errors by which collectives say that somebody does not answer any more."""


class LostError(RuntimeError):
    """Another process of this run is gone."""


class SharedError(InputError):
    """A mistake that every process was told of, so that all end together."""


class Group(NamedTuple):
    """The processes of this run.

    Attributes:
        size: How many.
        own: The number of this one.
        free: Bytes that are free on the device with the least memory, of all of them.
    """

    size: int = 1
    own: int = 0
    free: int | None = None


_group = Group()


def enter(free: int) -> None:
    """From now on this process is one of JAX's; ``free`` bytes are left on its devices."""
    global _group
    _group = Group(jax.process_count(), jax.process_index())
    _group = _group._replace(free=min(int(said) for said in exchange(str(free))))


def group() -> Group:
    """The processes of this run; one, unless ``maxfl.join`` was called."""
    return _group


def several() -> bool:
    """Whether there are other processes."""
    return _group.size > 1


def first() -> bool:
    """Whether this is the process that reads, writes and prints."""
    return _group.own == 0


def free_bytes(device: Any) -> int:
    """Memory that is free on a device; for a CPU, all that the machine has.

    Of several processes, what is free on the fullest device of all: they must decide alike.
    """
    if (agreed := _group.free) is not None:
        return agreed
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats:
        return int(stats["bytes_limit"] - stats["bytes_in_use"])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextmanager
def attached() -> Iterator[None]:
    """Say plainly that another process is gone, where JAX finds a connection closed."""
    try:
        yield
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        words = str(error).lower()
        if not several() or isinstance(error, InputError) or not any(w in words for w in BROKEN):
            raise
        raise LostError(gone()) from error


def gone() -> str:
    """What to do when another process is gone."""
    return (
        f"another of the {_group.size} processes is gone (this is process {_group.own}): see what "
        f"it said, and start all of them again, with --resume (resume=True) if they were training"
    )


def exchange(text: str) -> list[str]:
    """What every process says, in the order of their numbers."""
    if not several():
        return [text]
    said = np.frombuffer(text.encode(), np.uint8)
    lengths = _rows(np.array([len(said)], np.int32), _same)[:, 0]
    room = np.zeros(max(1, *lengths), np.uint8)
    room[: len(said)] = said
    rows = _rows(room, _same)
    return [row[:n].tobytes().decode() for row, n in zip(rows, lengths, strict=True)]


@contextmanager
def together() -> Iterator[None]:
    """What every process does for itself: if it fails in one of them, it fails in all."""
    failure: InputError | OSError | None = None
    try:
        yield
    except (InputError, OSError) as error:
        if not several() or isinstance(error, SharedError):
            raise
        failure = error
    messages = exchange("" if failure is None else str(failure))
    for process, message in enumerate(messages):
        if message:
            where = f"process {process}: " if several() and process else ""
            raise SharedError(where + message) from failure


def in_turn(work: Callable[[], object]) -> None:
    """One process after another, such as those of one machine that fetch the same file."""
    for process in range(_group.size):
        with together():
            if process == _group.own:
                work()


def lead(work: Callable[[], T]) -> T:
    """What process 0's work gave, in every process, as JSON can hold it; if it fails, all do."""
    value: Any = None
    with together():
        if first():
            value = work()
    return json.loads(exchange(json.dumps(value))[0]) if several() else value


def share(tree: Any, like: Any) -> Any:
    """Process 0's pytree of arrays, in every process; the others know its structure: ``like``."""
    if not several():
        return tree
    own = [np.ascontiguousarray(a) for a in jax.tree.leaves(tree)] if first() else []
    shapes = lead(lambda: [(a.shape, a.dtype.name) for a in own])
    leaves = []
    for i, (shape, name) in enumerate(shapes):
        leaf = own[i] if own else np.zeros(shape, jnp.dtype(name))
        content = leaf.reshape(-1).view(np.uint8)
        leaves.append(_rows(content, _top).view(leaf.dtype).reshape(shape))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def agree(description: dict[str, Any]) -> None:
    """Refuse to go on unless every process is about to run the same."""
    if not several():
        return
    text = json.dumps(description, sort_keys=True)
    if len(set(exchange(digest(text.encode())))) == 1:
        return
    here, *others = (json.loads(said) for said in exchange(text))
    for process, there in enumerate(others, 1):
        changed = differences(here, there, names=("in process 0", f"in process {process}"))
        if changed:
            raise SharedError(
                f"process {process} runs another experiment than process 0. It differs in "
                + "; ".join(written_first(changed)[:5])
                + ". Start all of them with the same file, settings, data and versions."
            )


def place(tree: Any, sharding: NamedSharding) -> Any:
    """Host arrays, the same in every process, on the devices of all."""
    if not several():
        return jax.device_put(tree, sharding)

    def one(a: Any) -> Any:
        if isinstance(a, jax.Array) and not a.is_fully_addressable:
            return jax.device_put(a, sharding)
        whole = np.asarray(a)
        return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])

    return jax.tree.map(one, tree)


def fetch(tree: Any, mesh: Mesh) -> Any:
    """Arrays on the devices of a mesh as host arrays, whole in every process."""

    def far(a: Any) -> bool:
        return isinstance(a, jax.Array) and not a.is_fully_addressable

    with attached():
        leaves, structure = jax.tree.flatten(tree)
        whole = iter(_everywhere(_same, mesh)([a for a in leaves if far(a)]) if several() else ())
        leaves = [np.asarray(next(whole) if far(a) else a) for a in leaves]
    return jax.tree.unflatten(structure, leaves)


def _rows(own: Any, pick: Callable[[Any], Any]) -> Any:
    """Every process's array of one shape as rows [processes, ...]; what is picked, on the host."""
    ahead = {device.process_index: device for device in reversed(jax.devices())}
    mesh = Mesh(np.array([ahead[process] for process in range(_group.size)]), ("process",))
    shape, split = (_group.size, *own.shape), NamedSharding(mesh, PartitionSpec("process"))
    with attached():
        rows = jax.make_array_from_callback(shape, split, lambda _: own[None])
        return np.asarray(_everywhere(pick, mesh)(rows))


def _same(arrays: Any) -> Any:
    return arrays


def _top(rows: Any) -> Any:
    return rows[0]


@lru_cache
def _everywhere(function: Callable[[Any], Any], mesh: Mesh) -> Callable[[Any], Any]:
    """The function, its results whole on every device; kept, so that it compiles once."""
    return jax.jit(function, out_shardings=NamedSharding(mesh, PartitionSpec()))
