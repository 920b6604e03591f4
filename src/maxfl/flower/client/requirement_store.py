"""Requirements that outlive a run: a node keeps ρ_k on disk, with a digest of what it is of.

A state of Flower's is of one run, and lost with a node's restart. A file here is named after the
digest, so that other data or settings have another file; those of before stay, and are used again
if the data become what they were. Requirements tell something of a client's data: files are for
their owner alone.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.common.logger import log

from maxfl.flower import keys
from maxfl.flower.client.digests import digest_of
from maxfl.utils.errors import InputError, shorten
from maxfl.utils.files import PRIVATE, locked, read_mapping, write_json
from maxfl.utils.integrity import SEAL, find_broken_seal, seal

NAMED = 32
"""Digits of a digest in the name of a file."""


@dataclass(frozen=True)
class RequirementStore:
    """Where a node keeps what it requires, and for which data and settings it holds.

    Attributes:
        of: Returns all that ρ_k depends on, which is digested by ``digest_of``: the client's data
            and the settings of its solo model, ``lambda context: (data_of(context), steps)``. The
            node's config is added, so that nodes may share a folder.
        folder: Absolute; by default the one that the node's config names, ``maxfl-requirements``.
    """

    of: Callable[[Context], Any]
    folder: str | Path | None = None

    def __post_init__(self) -> None:
        if not callable(self.of):
            raise InputError(
                f"RequirementStore({shorten(self.of)}): expected a function of the context that "
                f"returns what the requirement depends on: lambda context: (data_of(context), 100)"
            )

    def with_settings(self, *settings: Any) -> "RequirementStore":
        """Return the same store for requirements that depend on more settings."""
        return replace(self, of=lambda context: (self.of(context), settings))

    def folder_on(self, context: Context) -> Path | None:
        """Return the folder on a node; None where neither app nor node names one."""
        named = self.folder or context.node_config.get(keys.REQUIREMENTS_FOLDER)
        if named is None:
            return None
        folder = Path(str(named)).expanduser()
        if not folder.is_absolute():
            raise InputError(
                f"{keys.REQUIREMENTS_FOLDER} = {shorten(named)}: expected an absolute path, since "
                f"a node and `maxfl flower prepare` are started in different folders"
            )
        return folder

    def get(
        self, name: str, context: Context, compute: Callable[[], float], *, keep: bool = True
    ) -> float:
        """Return a requirement that is kept for these data and settings, or compute and keep it.

        Of several processes that need the same one, one computes and the others wait for it.
        Without ``keep`` what is computed is of this run alone.
        """
        folder = self.folder_on(context)
        if folder is None:
            log(INFO, "%s is computed for this run alone: the node's config names no folder, %s",
                name, f"{keys.REQUIREMENTS_FOLDER}=\"...\"")  # fmt: skip
            return compute()
        digest = digest_of(self.of(context), _node_settings(context))
        path = folder / f"{name}-{digest[:NAMED]}.json"
        with _held(path):
            kept = _read(path, digest)
            if kept is not None:
                log(INFO, "%s was computed before: %s", name, path)
                return kept
            _say_why(name, path)
            value = compute()
            if keep:
                _write(path, digest, value)
        return value


def _node_settings(context: Context) -> dict[str, Any]:
    """Return the node's config without its folder: what else it says may decide about the data."""
    config = context.node_config
    return {name: value for name, value in config.items() if name != keys.REQUIREMENTS_FOLDER}


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keep other processes from a file, in a folder that is made for its owner alone."""

    def say_so() -> None:
        log(INFO, "another process computes %s: waiting for it", path)

    with ExitStack() as stack:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = path.with_name(f".{path.name}.lock")
            stack.enter_context(locked(lock, PRIVATE, say_so))
        except OSError as error:
            raise InputError(
                f"{path.parent}, in which this node keeps what it requires, can't be used: "
                f"{error.strerror}. Name another folder in the node's config, "
                f"{keys.REQUIREMENTS_FOLDER}"
            ) from error
        yield


def _read(path: Path, digest: str) -> float | None:
    """Return the requirement in a file; None if there is none, or not as it was written."""
    if not path.exists():
        return None
    try:
        content = read_mapping(path)
    except InputError:
        content = {}
    value = content.get("requirement")
    is_number = isinstance(value, int | float) and math.isfinite(value)
    broken = SEAL not in content or find_broken_seal(path.parent, path.name, content)
    if broken or content.get("of") != digest or not is_number:
        log(WARNING, "%s is damaged, or was not written by maxfl", path)
        return None
    return float(value)  # type: ignore[arg-type]


def _say_why(name: str, path: Path) -> None:
    """Log that a requirement is computed, and why."""
    others = len(list(path.parent.glob(f"{name}-*.json"))) - path.exists()
    if path.exists():
        reason = f"{path} can't be used"
    elif others:
        reason = (
            f"this client's data, settings or node config are not those of the {others} kept in "
            f"{path.parent}"
        )
    else:
        reason = f"none is kept in {path.parent}"
    log(INFO, "%s is computed now: %s", name, reason)


def _write(path: Path, digest: str, value: float) -> None:
    """Write a file; where the disk does not take it, the run goes on without."""
    content = {"maxfl": version("maxfl"), "of": digest, "requirement": value,
               "computed": datetime.now(UTC).isoformat(timespec="seconds")}  # fmt: skip
    try:
        write_json(path, seal(content, {}), PRIVATE)
    except OSError as error:
        log(WARNING, "%s can't be written (%s): it is kept for this run alone", path, error)
