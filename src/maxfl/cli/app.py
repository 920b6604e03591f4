"""The ``maxfl`` command: its list of commands, its versions, and how a mistake ends."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from maxfl.cli.commands import LazyGroup, Subcommand
from maxfl.utils.errors import InputError

COMMANDS = {
    "demo": Subcommand(
        "maxfl.cli.demo",
        "Train MaxFL beside FedAvg on real images: one to two minutes.",
    ),
    "run": Subcommand("maxfl.cli.run", "Train one federation as a TOML file says."),
    "sweep": Subcommand(
        "maxfl.cli.run",
        "Train every combination of some settings, many at once.",
    ),
    "portfolio": Subcommand(
        "maxfl.cli.portfolio",
        "Find out how many global models a federation needs.",
    ),
    "watch": Subcommand(
        "maxfl.cli.report",
        "Follow a run, sweep or study in progress.",
    ),
    "report": Subcommand(
        "maxfl.cli.report", "Make tables, figures, model cards and one page to look at."
    ),
    "compare": Subcommand(
        "maxfl.cli.compare", "Compare two methods seed by seed and client by client."
    ),
    "check": Subcommand(
        "maxfl.cli.check", "Tell whether results, or a federation on disk, are whole."
    ),
    "init": Subcommand("maxfl.cli.init", "Write a file to start from."),
    "examples": Subcommand("maxfl.cli.examples", "List the examples, or write them into a folder."),
    "list": Subcommand(
        "maxfl.cli.listing",
        "List methods, models, losses, data and requirements, with their settings.",
    ),
    "data": Subcommand(
        "maxfl.cli.data", "Data sets: what is here, how to get the rest, how they are split.", True
    ),
    "paper": Subcommand(
        "maxfl.cli.paper",
        "The paper's tables and figures, beside what it prints.",
        True,
    ),
    "theory": Subcommand(
        "maxfl.cli.theory",
        "Why it works: the paper's theory, drawn and checked.",
        True,
    ),
    "flower": Subcommand(
        "maxfl.cli.flower",
        "Real federations on Flower: a ready app, a demo, and going back a few rounds.",
        True,
    ),
}  # fmt: skip


class MaxflGroup(LazyGroup):
    """All commands."""

    subcommands = COMMANDS


app = typer.Typer(
    cls=MaxflGroup,
    help="Federated learning that keeps its clients: train the global model that most clients "
    "prefer to their own, and see who stays.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # plain, or the list of commands would wait 0.3 s for rich
    pretty_exceptions_show_locals=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"maxfl {version('maxfl')}, JAX {version('jax')}")
        raise typer.Exit


@app.callback()
def common(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the versions."
        ),
    ] = False,
) -> None:
    """Take the options that stand before any command; the help shown is that of ``app``."""


def main() -> None:
    """Run the command; a user's mistake ends in one clear message."""
    try:
        app()
    except (InputError, MemoryError) as error:
        from maxfl.cli.terminal import print_error

        print_error(error if isinstance(error, InputError) else _in_words(error))
        sys.exit(2)


def _in_words(error: MemoryError) -> InputError:
    why = str(error) or "no more can be had"
    return InputError(f"too little memory: {why}. Ask for fewer clients, samples or features")
