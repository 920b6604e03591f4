"""Write docs/reference/command.md from the help of the command and its subcommands."""

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from maxfl.cli.app import COMMANDS

PAGE = Path(__file__).parent.parent / "docs/reference/command.md"
HEAD = """# Command line

`maxfl COMMAND --help` shows the same in a terminal. `--set key=value` takes any key of the
[settings](../configuration.md). A mistake ends with exit status 1 or 2 and a line that says what is
wrong and what to do; an interrupted run with 130, and `--resume` goes on. This page is made by
`python scripts/make_command_page.py`.
"""


def page() -> str:
    """Return the whole page."""
    root = click.Context(click.Group("maxfl"), info_name="maxfl")
    found = {name: subcommand.load(name) for name, subcommand in COMMANDS.items()}
    return "\n".join([HEAD, *(section(command) for command in contexts(root, found))])


def contexts(
    parent: click.Context, commands: Mapping[str, click.Command]
) -> Iterator[click.Context]:
    """List all commands that do something, each in its context."""
    for name, command in commands.items():
        context = click.Context(command, parent=parent, info_name=name)
        if isinstance(command, click.Group):
            yield from contexts(context, command.commands)
        elif not command.hidden:
            yield context


def section(context: click.Context) -> str:
    """Return what a command does, its usage, arguments and options."""
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    text = inspect.cleandoc(command.help or "").replace("\b\n", "").split("\f")[0].strip()
    # An example may go on in the next line, to the end of its paragraph.
    text = re.sub(
        r"^Examples?: *(.*?)(?=\n\n|\Z)",
        lambda found: f"For example:\n\n    {' '.join(found[1].split())}",
        text,
        flags=re.MULTILINE | re.DOTALL,
    )
    lines = [f"## `{context.command_path}`", "", text, "", "Usage:", "", f"    {usage}", ""]
    rows = [row for parameter in command.params if (row := described(parameter, context))]
    if rows:
        lines += ["| | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def described(parameter: click.Parameter, context: click.Context) -> str:
    """Return a row of the table: how a parameter is written, and what it means."""
    help_ = getattr(parameter, "help", None) or ""
    if getattr(parameter, "hidden", False) or parameter.name == "help":
        return ""
    written = parameter.make_metavar(context).replace("|", " / ")
    meaning = " ".join(help_.split())
    if isinstance(parameter, click.Option):
        names = " / ".join([*parameter.opts, *parameter.secondary_opts])
        written = names if parameter.is_flag else f"{names} {written}"
        is_plain = isinstance(parameter.default, int | float | str) and parameter.default != ""
        if is_plain and not parameter.is_flag:
            meaning += f" By default {parameter.default}."
    meaning = meaning.replace("<", "&lt;").replace("|", "&#124;")
    return f"| `{written}` | {meaning} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
