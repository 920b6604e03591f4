"""The same metrics to other people's tools: one small adapter each, off by default.

A tracker is opened for every run folder and told every configuration's metrics at every evaluated
round, named as in metrics.parquet: ``seen/gm_appeal``, ``unseen/personal/test_accuracy``.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from maxfl.utils.errors import InputError, check_choice
from maxfl.utils.files import write_whole


class Configuration(NamedTuple):
    """What a tracker is told before the first round.

    Attributes:
        folder: The run's.
        number: Of the configuration in its sweep.
        values: What is special about it, by setting.
        settings: All of its settings, where the run was made from some.
    """

    folder: Path
    number: int
    values: dict[str, Any]
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """For people: the folder, and what is special."""
        special = ", ".join(f"{k.rpartition('.')[2]} {v}" for k, v in self.values.items())
        name = _own_folder(self.folder).name
        return f"{name}: {special}" if special else name

    def remembered(self, tracker: str, make: Callable[[], str]) -> str:
        """The id that this configuration has at a tracker, the same after every resume."""
        path = self.folder / "trackers" / f"{tracker}-{self.number}.txt"
        if not path.is_file():
            path.parent.mkdir(exist_ok=True)
            write_whole(path, make().encode())
        return path.read_text()


class Tracker(Protocol):
    """Where one configuration's metrics go."""

    def log(self, round: int, metrics: Mapping[str, float]) -> None:
        """Note the metrics of the model after some rounds."""

    def close(self, failed: bool) -> None:
        """Write what is left, once, when the run ends, fails or is interrupted."""


Opener = Callable[[Configuration], Tracker]

NAMES = ("tensorboard", "mlflow", "wandb")
"""Known trackers; the extras that install them are called the same."""


def tracker(name: str) -> Opener:
    """The adapter of that name, or how to install it."""
    check_choice("--track", name, NAMES)
    try:
        return import_module(f"maxfl.runs.trackers.{name}").open_tracker
    except ImportError as error:
        raise InputError(
            f"--track {name} needs a package that is not installed: pip install 'maxfl[{name}]'"
        ) from error


def _own_folder(folder: Path) -> Path:
    """The sweep's folder for one of its groups."""
    folder = folder.resolve()
    return folder.parent.parent if folder.parent.name == "groups" else folder
