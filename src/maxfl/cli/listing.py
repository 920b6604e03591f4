"""``maxfl list``: what a file can name, built in or own."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from maxfl.cli.options import check_name
from maxfl.cli.terminal import console, errors
from maxfl.utils.links import page_url

if TYPE_CHECKING:
    from maxfl.runs.plugins.catalogue import Listed

app = typer.Typer()


@app.command("list")
def list_command(
    name: Annotated[
        str | None,
        typer.Argument(help="One of them, or module:function of your own: all about it."),
    ] = None,
) -> None:
    """List methods, models, losses, data and requirements, with their settings.

    Those of installed packages are listed too, and your own can be named.

    Example: maxfl list mymodule:mymethod
    """
    from maxfl.runs.plugins.catalogue import catalogue, look_up

    if name is not None:
        found = look_up(name)
        if not found:
            known = [one.name for listed in catalogue().values() for one in listed]
            check_name(name, known, "maxfl list")
        for one in found:
            _show(one)
        return
    for setting, listed in catalogue().items():
        console.print(_table(setting, listed))
    console.print(
        "maxfl list NAME shows all about one. Your own code, in a module of the current folder or "
        f"installed, is module:function: {page_url('own-code')}",
        style="dim",
    )


def _table(setting: str, listed: "list[Listed]") -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(setting, no_wrap=True)
    table.add_column("what")
    if with_settings := any(one.parameters for one in listed):
        table.add_column("settings")
    for one in listed:
        what = escape(one.what) + (f" [dim]({escape(one.origin)})[/]" if one.origin else "")
        what += f" [red]can't be used:[/] {escape(one.error)}" if one.error else ""
        settings = ", ".join(parameter.shown for parameter in one.parameters)
        table.add_row(one.name, what.strip(), *([escape(settings)] if with_settings else []))
    return table


def _show(one: "Listed") -> None:
    """Print everything about one thing."""
    origin = f" ({one.origin})" if one.origin else ""
    console.print(f"[bold]{escape(one.name)}[/]{escape(origin)}", highlight=False)
    if one.error:
        errors.print(f"Can't be used: {one.error}", style="red", markup=False, highlight=False)
    text = (one.text or one.what).strip()
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    for makes, names in one.filled.items():
        console.print(f"Filled in, where it makes {makes}: {', '.join(names)}", highlight=False)
    if one.parameters:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("setting", "meaning"):
            table.add_column(heading)
        for parameter in one.parameters:
            table.add_row(escape(parameter.shown), escape(parameter.meaning))
        console.print(table)
