"""A run in progress, told to whoever looks: one small file, written anew after every block.

progress.json is there while a run is at work (or was killed); a finished run has none.
"""

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from maxfl.files import write_json
from maxfl.history import History
from maxfl.simulation import Progress

PROGRESS = "progress.json"
TRAIL = ("gm_appeal", "test_accuracy", "willing")
"""What is kept of every round: means over the seen clients and all configurations."""
LEAST_SECONDS = 0.5
"""Between two writings, if nothing was measured."""


class Live:
    """The progress file of a run folder."""

    def __init__(
        self, folder: Path, values: Sequence[Mapping[str, Any]], inner: Progress | None
    ) -> None:
        self._path, self._inner = folder / PROGRESS, inner
        self._last = 0.0
        self._content: dict[str, Any] = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "began": time.time(),
            "at": time.time(),
            "stage": "starting",
            "done": 0,
            "total": 0,
            "first": 0,
            "stopped": None,
            "configurations": [dict(chosen) for chosen in values],
            "latest": [],
            "trail": {"round": [], **{name: [] for name in TRAIL}},
        }

    def report(self, stage: str, done: int, total: int) -> None:
        """A progress callback that notes the stage and passes it on."""
        if stage == "resumed":
            self._content["first"] = done
        else:
            self._content |= {"stage": stage, "done": done, "total": total}
        if time.time() - self._last > LEAST_SECONDS or stage == "rounds":
            self._write()
        if self._inner:
            self._inner(stage, done, total)

    def measured(self, history: History) -> None:
        """Note means over the seen clients of some more rounds."""
        metrics = history.metrics("seen")
        trail = self._content["trail"]
        trail["round"] += history.rounds.tolist()
        for name in TRAIL:
            trail[name] += [_number(v) for v in metrics[name].mean(0)]
        latest = zip(*(metrics[name][:, -1] for name in TRAIL), strict=True)
        self._content["latest"] = [
            dict(zip(TRAIL, map(_number, own), strict=True)) for own in latest
        ]

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Say so if the work fails, or if somebody stops it."""
        try:
            yield
        except BaseException as error:
            self._content["stopped"] = str(error).split("\n")[0] or type(error).__name__
            with suppress(OSError):  # such as the full disk that ended it
                self._write()
            raise

    def remove(self) -> None:
        """The run is finished."""
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        self._last = self._content["at"] = time.time()
        write_json(self._path, self._content)


def _number(value: Any) -> float | None:
    return round(float(value), 4) if np.isfinite(value) else None
