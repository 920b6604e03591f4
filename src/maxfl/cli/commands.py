"""Groups of commands that are imported when they are called, and commands that compute."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import click
import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from maxfl.cli.signals import Interrupted


class Subcommand(NamedTuple):
    """Where a command is, and what the list of commands says of it.

    Attributes:
        module: Imported when the command is called; it has a ``typer.Typer`` named ``app``.
        help: The first line of the command's help.
        is_group: Whether the command is all of ``app``, with its commands; else it is one of them.
    """

    module: str
    help: str
    is_group: bool = False

    def load(self, name: str) -> click.Command:
        """Import the command, which is called ``name``."""
        app = import_module(self.module).app
        if self.is_group:
            parent = typer.Typer()
            parent.add_typer(app, name=name, cls=CommandGroup, no_args_is_help=True)
            app = parent
        return get_group(app).commands[name]


class CommandGroup(TyperGroup):
    """A group that answers a mistyped command once, with those that are near."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name of the command that is called, the command, and its arguments."""
        name = args[0]
        is_known = name.startswith("-") or self.get_command(ctx, name) is not None
        if not is_known and not ctx.resilient_parsing:
            near = " or ".join(repr(word) for word in get_close_matches(name, self.commands))
            ctx.fail(f"No such command {name!r}.{f' Did you mean {near}?' if near else ''}")
        return super().resolve_command(ctx, args)


class LazyGroup(CommandGroup):
    """A group that imports a command when it is called; to be listed, it need not be there.

    Whatever a signal cuts off, and does not say so itself, ends in a word.
    """

    subcommands: ClassVar[Mapping[str, Subcommand]] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, subcommand in self.subcommands.items():
            self.add_command(TyperCommand(name, help=subcommand.help))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that is called."""
        try:
            return super().invoke(ctx)
        except Interrupted as end:
            click.echo(f"{end}.", err=True)
            raise typer.Exit(end.exit_code) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name of the command that is called, the command itself, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and name in self.subcommands:
            command = self.subcommands[name].load(name)
        return name, command, rest


class ComputingCommand(TyperCommand):
    """A command that computes with JAX, which is set up when it runs; its help need not wait."""

    def invoke(self, ctx: click.Context) -> Any:
        """Set JAX up, and run the command; what Python warns of is printed as a note."""
        set_up_jax()
        from maxfl.cli.terminal import print_warnings

        with print_warnings():
            return super().invoke(ctx)


def set_up_jax() -> None:
    """Let JAX use all cores and keep compiled programs, unless it is set up already."""
    import jax

    from maxfl.engine.layout import use_all_cores
    from maxfl.utils.paths import user_cache

    if jax.config.values["jax_num_cpu_devices"] < 0:
        use_all_cores()
    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(user_cache() / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
