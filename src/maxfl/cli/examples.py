"""``maxfl examples``: the files of examples/, listed or written into a folder."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from maxfl.cli.options import check_folder
from maxfl.cli.terminal import console
from maxfl.utils.errors import InputError
from maxfl.utils.links import source_url

app = typer.Typer()

KINDS = (".toml", ".py", ".ipynb", ".md")
"""Endings of the files, in the order of the list; what examples write or cache has others."""
FIRST = "opt-out.toml"
"""The example to try first: it needs no data but the package's own."""


class Example(NamedTuple):
    """An example.

    Attributes:
        name: Its file or, with ``/`` at the end, its folder, below that of all examples.
        what: What it shows, in a line.
    """

    name: str
    what: str


@app.command("examples")
def examples_command(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="Where to write them; without it, they are listed."),
    ] = None,
) -> None:
    """List the examples, or write them into a folder.

    Settings to run, sweep and change, scripts, notebooks, and apps for Flower.

    Example: maxfl examples examples
    """
    if folder is None:
        _show()
        return
    count = _write(folder)
    console.print(
        f"Written: {folder}, {count} files. Try one: maxfl run {folder / FIRST}",
        soft_wrap=True,
        highlight=False,
    )


def example_folder() -> Path:
    """Return where the examples are: in an installed package, or in the clone that is used."""
    packaged, in_clone = Path(__file__).with_name("example_files"), Path(__file__).parents[3]
    for place in (packaged, in_clone / "examples"):
        if (place / FIRST).is_file():
            return place
    raise InputError(
        f"{packaged} is not there, so maxfl is not installed whole: install it anew, pip install "
        f"--force-reinstall maxfl"
    )


def example_files(folder: Path) -> list[Path]:
    """Return the paths of all files below the folder of examples, relative to it."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.suffix in KINDS)
    return sorted(found, key=lambda path: (KINDS.index(path.suffix), path))


def examples(folder: Path) -> Iterator[Example]:
    """List the examples of a folder; one with a README is a single example."""
    files = example_files(folder)
    whole = {path.parent for path in files if path.name == "README.md"}
    for path in files:
        if path.name == "README.md":
            yield Example(f"{path.parent}/", _first_line(folder / path))
        elif not whole.intersection(path.parents):
            yield Example(str(path), _first_line(folder / path))


def _first_line(path: Path) -> str:
    """Return the line with which a file says what it is."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(text)) or ""
    elif path.suffix == ".ipynb":
        text = "".join(json.loads(text)["cells"][0]["source"])
    return text.partition("\n")[0].lstrip("# ")


def _show() -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("example", no_wrap=True)
    table.add_column("what")
    for example in examples(example_folder()):
        table.add_row(example.name, escape(example.what))
    console.print(table)
    console.print(
        "maxfl examples FOLDER writes them; they name each other as in a folder called examples.",
        style="dim",
    )


def _write(folder: Path) -> int:
    """Write all files, or none if one is there already; return how many."""
    check_folder(folder, "FOLDER")
    source = example_folder()
    files = example_files(source)
    for path in files:
        if (folder / path).exists():
            raise InputError(
                f"{folder / path} is there already, and stays as it is: name another folder"
            )
    try:
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(_read(source / path), encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"can't write to {folder}: {error.strerror}; name another folder"
        ) from error
    return len(files)


def _read(path: Path) -> str:
    """Read a file; links into the clone, which a new folder is not in, become addresses."""
    return path.read_text(encoding="utf-8").replace("](../../", f"]({source_url('')}")
