"""Options that several commands share, and what is said about them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from maxfl.cli.terminal import errors
from maxfl.utils.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from maxfl.core.federation import Federation
    from maxfl.runs.configs.run import RunConfig

ConfigFile = Annotated[
    Path,
    typer.Argument(help="A TOML file, as `maxfl init` and `maxfl examples FOLDER` write them."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting (repeatable): training.rounds=50.",
    ),
]


def renamed(old: str, new: str) -> Any:
    """Return a hidden option that is refused with its new name."""

    def refuse(value: object) -> None:
        if value is not None:
            raise InputError(f"{old} is called {new} now")

    return typer.Option(old, hidden=True, callback=refuse)


def check_name(given: str, known: Iterable[str], where: str) -> None:
    """Refuse a NAME that is not known: say which is near, or what command lists all."""
    if given in (names := list(known)):
        return
    hint = did_you_mean(given, names) or f"; {where} shows all"
    raise InputError(f"NAME {given}: there is no such name{hint}")


def check_folder(path: Path, option: str = "--out") -> None:
    """Refuse a file where a folder is to be."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file: name a new folder ({option})")


class ReadSettings(NamedTuple):
    """A file of settings.

    Attributes:
        raw: Its tables, with the changes.
        where: How to call it in messages.
        changes: What ``--set`` changed.
    """

    raw: dict[str, Any]
    where: str
    changes: dict[str, Any]


def read_settings(config: Path, settings: list[str] | None) -> ReadSettings:
    """Read a file and change some of its settings."""
    from maxfl.runs.configs.file import override_all, parse_setting, read_toml

    changes = dict(parse_setting(text) for text in settings or [])
    where = f"{config} with --set {', '.join(changes)}" if changes else str(config)
    return ReadSettings(override_all(read_toml(config), changes), where, changes)


def note_unused(configs: "Sequence[RunConfig]", section: str = "") -> None:
    """Point at settings (of a section) that do nothing in any configuration."""
    from maxfl.runs.configs.file import unused

    for note in unused(configs[0]):
        if note.startswith(section) and all(note in unused(config) for config in configs[1:]):
            _note(note)


def note_unused_beside_data(config: "RunConfig", federation: "Federation") -> None:
    """Point at settings that do nothing for the data at hand."""
    from maxfl.runs.configs.file import unused_beside_data

    for note in unused_beside_data(config, has_own_judging=federation.has_own_judging):
        _note(note)


def _note(note: str) -> None:
    errors.print(f"Note: {note}.", style="yellow", markup=False, highlight=False)
