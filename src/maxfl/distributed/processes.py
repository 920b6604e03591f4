"""What the processes of one simulation tell each other.

Every process runs the same program on the devices that it has, and JAX spreads arrays over all of
them. Process 0 alone has the folder of results and prints. What it reads there it shares with the
others, so they need no common file system. Everything here that speaks to the others must be called
by all of them, in the same order; with one process, all of it is as if it were not there.
"""

import json
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
from maxfl.utils.memory import machine_memory

T = TypeVar("T")
BROKEN = ("gloo", "nccl", "coordination service", "connection closed", "connection reset")
"""Words of errors by which collectives say that somebody does not answer any more."""


class LostPeerError(RuntimeError):
    """Another process of this run is gone."""


class SharedError(InputError):
    """A mistake that every process knows of, so that all end together."""


class Group(NamedTuple):
    """The processes of this run.

    Attributes:
        size: How many.
        rank: The number of this one, from 0.
        free: Bytes that are free on the device with the least memory, of all of them.
    """

    size: int = 1
    rank: int = 0
    free: int | None = None


_group = Group()


def enter_group(free: int) -> None:
    """Make this process one of JAX's from now on; ``free`` bytes are left on its devices."""
    global _group
    _group = Group(jax.process_count(), jax.process_index())
    _group = _group._replace(free=min(int(text) for text in all_gather_text(str(free))))


def group() -> Group:
    """Return the processes of this run: one, unless ``maxfl.join`` was called."""
    return _group


def is_distributed() -> bool:
    """Return whether there are other processes."""
    return _group.size > 1


def is_leader() -> bool:
    """Return whether this is the process that reads, writes and prints."""
    return _group.rank == 0


def free_bytes(device: Any) -> int:
    """Return the bytes that are free on a device; for a CPU, all that the machine has.

    Of several processes, what is free on the fullest device of all: they must decide alike.
    """
    if (agreed := _group.free) is not None:
        return agreed
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats:
        return int(stats["bytes_limit"] - stats["bytes_in_use"])
    return machine_memory()


@contextmanager
def explain_lost_peer() -> Iterator[None]:
    """Say plainly that another process is gone, where JAX finds a connection closed."""
    try:
        yield
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        words = str(error).lower()
        if (
            not is_distributed()
            or isinstance(error, InputError)
            or not any(w in words for w in BROKEN)
        ):
            raise
        raise LostPeerError(lost_peer_message()) from error


def lost_peer_message() -> str:
    """Say that another process is gone, and what to do."""
    return (
        f"another of the {_group.size} processes is gone (this is process {_group.rank}): see what "
        f"it said, and start all of them again, with --resume (resume=True) if they were training"
    )


def all_gather_text(text: str) -> list[str]:
    """Return what every process says, in the order of their ranks."""
    if not is_distributed():
        return [text]
    content = np.frombuffer(text.encode(), np.uint8)
    lengths = _rows(np.array([len(content)], np.int32), _same)[:, 0]
    padded = np.zeros(max(1, *lengths), np.uint8)
    padded[: len(content)] = content
    rows = _rows(padded, _same)
    return [row[:n].tobytes().decode() for row, n in zip(rows, lengths, strict=True)]


@contextmanager
def raise_together() -> Iterator[None]:
    """Do something in every process; if it fails in one of them, raise its error in all."""
    failure: InputError | OSError | None = None
    try:
        yield
    except (InputError, OSError) as error:
        if not is_distributed() or isinstance(error, SharedError):
            raise
        failure = error
    messages = all_gather_text("" if failure is None else str(failure))
    for process, message in enumerate(messages):
        if message:
            where = f"process {process}: " if is_distributed() and process else ""
            raise SharedError(where + message) from failure


def in_order(work: Callable[[], object]) -> None:
    """Work in one process after another: those of one machine may fetch the same file."""
    for process in range(_group.size):
        with raise_together():
            if process == _group.rank:
                work()


def on_leader(work: Callable[[], T]) -> T:
    """Return what process 0's work gave, in every process, as JSON can hold it.

    If it fails, all processes raise its error.
    """
    value: Any = None
    with raise_together():
        if is_leader():
            value = work()
    return json.loads(all_gather_text(json.dumps(value))[0]) if is_distributed() else value


def broadcast(tree: Any, like: Any) -> Any:
    """Return process 0's pytree of arrays in every process; ``like`` has its structure."""
    if not is_distributed():
        return tree
    arrays = [np.ascontiguousarray(a) for a in jax.tree.leaves(tree)] if is_leader() else []
    shapes = on_leader(lambda: [(a.shape, a.dtype.name) for a in arrays])
    leaves = []
    for i, (shape, name) in enumerate(shapes):
        leaf = arrays[i] if arrays else np.zeros(shape, jnp.dtype(name))
        content = leaf.reshape(-1).view(np.uint8)
        leaves.append(_rows(content, _top).view(leaf.dtype).reshape(shape))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def assert_same(description: dict[str, Any]) -> None:
    """Refuse to go on unless every process is about to run the same."""
    if not is_distributed():
        return
    text = json.dumps(description, sort_keys=True)
    if len(set(all_gather_text(digest(text.encode())))) == 1:
        return
    leaders, *others = (json.loads(gathered) for gathered in all_gather_text(text))
    for process, theirs in enumerate(others, 1):
        changed = differences(leaders, theirs, names=("in process 0", f"in process {process}"))
        if changed:
            raise SharedError(
                f"process {process} runs another experiment than process 0. It differs in "
                + "; ".join(written_first(changed)[:5])
                + ". Start all of them with the same file, settings, data and versions."
            )


def place(tree: Any, sharding: NamedSharding) -> Any:
    """Put host arrays, the same in every process, on the devices of all."""
    if not is_distributed():
        return jax.device_put(tree, sharding)

    def one(a: Any) -> Any:
        if isinstance(a, jax.Array) and not a.is_fully_addressable:
            return jax.device_put(a, sharding)
        whole = np.asarray(a)
        return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])

    return jax.tree.map(one, tree)


def fetch(tree: Any, mesh: Mesh) -> Any:
    """Return arrays on the devices of a mesh as host arrays, whole in every process."""

    def is_remote(a: Any) -> bool:
        return isinstance(a, jax.Array) and not a.is_fully_addressable

    with explain_lost_peer():
        leaves, structure = jax.tree.flatten(tree)
        remote = [leaf for leaf in leaves if is_remote(leaf)]
        whole = iter(_everywhere(_same, mesh)(remote) if is_distributed() else ())
        leaves = [np.asarray(next(whole) if is_remote(leaf) else leaf) for leaf in leaves]
    return jax.tree.unflatten(structure, leaves)


def _rows(array: Any, pick: Callable[[Any], Any]) -> Any:
    """Gather every process's array as a row of [processes, ...], and return what is picked."""
    first_device = {device.process_index: device for device in reversed(jax.devices())}
    mesh = Mesh(np.array([first_device[process] for process in range(_group.size)]), ("process",))
    shape, split = (_group.size, *array.shape), NamedSharding(mesh, PartitionSpec("process"))
    with explain_lost_peer():
        rows = jax.make_array_from_callback(shape, split, lambda _: array[None])
        return np.asarray(_everywhere(pick, mesh)(rows))


def _same(arrays: Any) -> Any:
    return arrays


def _top(rows: Any) -> Any:
    return rows[0]


@lru_cache
def _everywhere(function: Callable[[Any], Any], mesh: Mesh) -> Callable[[Any], Any]:
    """Compile a function with its results whole on every device; once for each mesh."""
    return jax.jit(function, out_shardings=NamedSharding(mesh, PartitionSpec()))
