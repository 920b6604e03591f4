"""What clients keep between rounds, on disk, with a row for each that has taken part."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from maxfl.algorithms.contract import Pytree


class ClientStore:
    """Rows of clients' memory in one file for each array of it.

    Args:
        folder: Where the files are.
        like: What one client keeps; shapes and types.
        clients: M, the number of clients that can take part.
    """

    def __init__(self, folder: Path, like: Pytree, clients: int) -> None:
        leaves, self._structure = jax.tree.flatten(like)
        self._like = [np.asarray(leaf) for leaf in leaves]
        self._files = [(folder / f"memory-{i}.bin").open("w+b") for i in range(len(leaves))]
        self._row = np.full(clients, -1, np.int32)
        self.used = 0

    def read(self, clients: NDArray[np.int64], fresh: Pytree) -> Pytree:
        """What some clients keep, leading axis n; ``fresh`` for those that are new."""
        found = [np.repeat(np.asarray(leaf)[None], len(clients), 0)
                 for leaf in jax.tree.leaves(fresh)]  # fmt: skip
        for i, row in enumerate(self._row[clients]):
            if row >= 0:
                for rows, file, like in zip(found, self._files, self._like, strict=True):
                    file.seek(int(row) * like.nbytes)
                    rows[i] = np.frombuffer(file.read(like.nbytes), like.dtype).reshape(like.shape)
        return jax.tree.unflatten(self._structure, found)

    def write(self, clients: NDArray[np.int64], kept: Pytree) -> None:
        """Write down what some clients keep from now on, leading axis n."""
        new = np.flatnonzero(self._row[clients] < 0)
        self._row[clients[new]] = self.used + np.arange(len(new))
        self.used += len(new)
        for rows, file, like in zip(jax.tree.leaves(kept), self._files, self._like, strict=True):
            for client, row in zip(clients, np.asarray(rows), strict=True):
                file.seek(int(self._row[client]) * like.nbytes)
                file.write(np.ascontiguousarray(row, like.dtype).data)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def __enter__(self) -> "ClientStore":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
