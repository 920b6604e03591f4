"""Which own code some configurations use, and whether that of a run folder can be found here."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, get_args

from maxfl.runs.plugins.code import CODE_FROM, Code, merge
from maxfl.runs.plugins.entry_points import Kind, find_target
from maxfl.runs.plugins.importing import is_there
from maxfl.runs.plugins.resolve import load
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_mapping
from maxfl.utils.paths import EXPERIMENT

NAMES: Final[dict[tuple[str, str], Kind]] = {
    ("algorithm", "name"): "algorithm",
    ("model", "name"): "model",
    ("model", "loss"): "loss",
    ("data", "source"): "data",
    ("requirement", "rule"): "requirement",
}
"""Settings that may name own code."""


def code_of(configs: Iterable[Any]) -> Code:
    """Return the own code that configurations name, as it was imported."""
    targets: dict[str, None] = {}
    for config in configs:
        for (section, key), kind in NAMES.items():
            table = getattr(config, section)
            name = getattr(table, key, None)
            is_built_in = name is None or name in get_args(type(table).model_fields[key].annotation)
            if not is_built_in and (target := find_target(name, kind)):
                targets[target] = None
    return merge(load(target).code for target in targets)


def require_code(folder: Path) -> None:
    """Refuse to resume a run whose modules are not to be found here; say where they were.

    Looks for them by name, and imports nothing that a run folder names.
    """
    if not (folder / EXPERIMENT).is_file():
        return
    noted = read_mapping(folder / EXPERIMENT).get(CODE_FROM)
    for name, place in noted.items() if isinstance(noted, dict) else ():
        if str(name).isidentifier() and not is_there(str(name), Path.cwd()):
            was = (folder / str(place)).resolve()
            # A run folder that was moved or copied does not know where its code stayed.
            start = str(was) if is_there(str(name), was) else f"the folder that has {name}"
            raise InputError(
                f"the run in {folder} was made with the module {name}, which is neither in the "
                f"current folder {Path.cwd()} nor installed: resume it from {start}"
            )
