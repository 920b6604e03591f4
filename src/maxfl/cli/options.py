"""Arguments that several commands share, and what is said about them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from maxfl.cli.terminal import errors
from maxfl.runs.config import RunConfig
from maxfl.runs.config_file import override_all, parse_setting, read_toml, unused

ConfigFile = Annotated[Path, typer.Argument(help="A TOML file; see docs/configuration.md.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting (repeatable): training.rounds=50.",
    ),
]


class Read(NamedTuple):
    """A file of settings.

    Attributes:
        raw: Its tables, with the changes.
        where: How to call it in messages.
        changes: What ``--set`` changed.
    """

    raw: dict[str, Any]
    where: str
    changes: dict[str, Any]


def read_settings(config: Path, settings: list[str] | None) -> Read:
    """Read a file and change some of its settings."""
    changes = dict(parse_setting(text) for text in settings or [])
    where = f"{config} with --set {', '.join(changes)}" if changes else str(config)
    return Read(override_all(read_toml(config), changes), where, changes)


def note_unused(configs: Sequence[RunConfig], section: str = "") -> None:
    """Point at settings (of a section) that do nothing in any configuration."""
    for note in unused(configs[0]):
        if note.startswith(section) and all(note in unused(config) for config in configs[1:]):
            errors.print(f"Note: {note}.", style="yellow", markup=False, highlight=False)
