"""Client states on disk: what clients keep between rounds, with a row for each that has taken part.

A row is never overwritten while a checkpoint names it: what a client keeps from now on goes into a
free row, and its old one becomes free once the next checkpoint stands. So whatever a killed process
was writing is named by nobody, and a run goes on from the rows of its last checkpoint.
"""

import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from maxfl.core.algorithm import Pytree
from maxfl.utils.errors import InputError
from maxfl.utils.files import open_unlinked


class StoredRows(NamedTuple):
    """Where the clients' rows are, for those that have one, [n] each.

    Attributes:
        client_id: Its id, int32.
        row: Its row in the file, int32.
        check: CRC-32 of the row, uint32.
    """

    client_id: Any
    row: Any
    check: Any


NO_ROWS = StoredRows(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.uint32))


class ClientStateFile:
    """Rows of client states in one file.

    Args:
        path: The file; made if it is not there.
        like: What one client keeps; shapes and types.
        clients: M, the number of clients that can participate.
    """

    def __init__(self, path: Path, like: Pytree, clients: int) -> None:
        leaves, self._structure = jax.tree.flatten(like)
        self._like = [np.asarray(leaf) for leaf in leaves]
        self.row_bytes = sum(leaf.nbytes for leaf in self._like)
        self._path = path
        self._file = os.fdopen(open_unlinked(path, os.O_RDWR), "r+b", buffering=0)
        self._row = np.full(clients, -1, np.int32)
        self._check = np.zeros(clients, np.uint32)
        self._free: list[int] = []
        self._old: list[int] = []
        self.rows = 0

    def restore(self, saved: StoredRows) -> None:
        """Go on from what ``save`` gave; all else in the file is free."""
        self._row[:] = -1
        self._row[saved.client_id], self._check[saved.client_id] = saved.row, saved.check
        self.rows = int(np.max(saved.row, initial=-1)) + 1
        used = np.zeros(self.rows, bool)
        used[saved.row] = True
        self._free, self._old = np.flatnonzero(~used)[::-1].tolist(), []
        needed, size = self.rows * self.row_bytes, self._path.stat().st_size
        if size < needed:
            raise self._refusal(f"{size} bytes, but {needed} belong there")
        self._file.truncate(needed)

    def read(self, clients: NDArray[np.int64], fresh: Pytree) -> Pytree:
        """Read what some clients keep, leading axis n; ``fresh`` for those that are new."""
        found = [np.repeat(np.asarray(leaf)[None], len(clients), 0)
                 for leaf in jax.tree.leaves(fresh)]  # fmt: skip
        for i, client in enumerate(clients):
            if self._row[client] >= 0:
                for rows, part in zip(found, self._read_row(client), strict=True):
                    rows[i] = part
        return jax.tree.unflatten(self._structure, found)

    def _read_row(self, client: np.int64) -> list[NDArray[Any]]:
        offset = int(self._row[client]) * self.row_bytes
        content = os.pread(self._file.fileno(), self.row_bytes, offset)
        if zlib.crc32(content) != self._check[client]:
            raise self._refusal(f"a damaged row, of client {client}")
        ends = np.cumsum([0, *(like.nbytes for like in self._like)])
        return [
            np.frombuffer(content[begin:end], like.dtype).reshape(like.shape)
            for like, begin, end in zip(self._like, ends[:-1], ends[1:], strict=True)
        ]

    def write(self, clients: NDArray[np.int64], states: Pytree) -> None:
        """Write down what some clients keep from now on, leading axis n."""
        leaves = [np.ascontiguousarray(leaf, like.dtype) for leaf, like
                  in zip(jax.tree.leaves(states), self._like, strict=True)]  # fmt: skip
        for i, client in enumerate(clients):
            content = b"".join(leaf[i].tobytes() for leaf in leaves)
            row = self._free.pop() if self._free else self.rows
            self._write_row(row, content)
            self.rows = max(self.rows, row + 1)
            if self._row[client] >= 0:
                self._old.append(int(self._row[client]))
            self._row[client], self._check[client] = row, zlib.crc32(content)

    def _write_row(self, row: int, content: bytes) -> None:
        done = 0
        while done < len(content):  # a disk that fills up takes a part first
            done += os.pwrite(self._file.fileno(), content[done:], row * self.row_bytes + done)

    def save(self) -> StoredRows:
        """See that all rows are on the disk, and say where."""
        os.fsync(self._file.fileno())
        client = np.flatnonzero(self._row >= 0).astype(np.int32)
        return StoredRows(client, self._row[client], self._check[client])

    def saved(self) -> None:
        """Free the rows that were replaced: what ``save`` gave stands in a checkpoint."""
        self._free += self._old
        self._old = []

    def _refusal(self, why: str) -> InputError:
        return InputError(
            f"the checkpoint in {self._path.parent} can't be resumed: {self._path.name} has {why}. "
            f"Delete {self._path.parent} to start anew, or restore it from a copy."
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()
