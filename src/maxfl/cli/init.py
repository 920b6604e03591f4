"""``maxfl init``: a file to start from."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from maxfl.cli.terminal import console
from maxfl.utils.errors import InputError

app = typer.Typer()


@app.command("init")
def init_command(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A new file; by default run.toml, or run.py."),
    ] = None,
    python: Annotated[
        bool, typer.Option("--python", help="A Python script with arrays of your own.")
    ] = False,
) -> None:
    """Write a file to start from.

    A TOML file with the settings that are changed most, at their defaults, each with its meaning;
    or a script.

    Example: maxfl init hospitals.toml
    """
    place = file or Path("run.py" if python else "run.toml")
    ending = ".py" if python else ".toml"
    if place.suffix != ending:
        other = "" if python or place.suffix != ".py" else ", or add --python"
        raise InputError(f"{place}: name a file that ends in {ending}{other}")
    _write_new(place, _script() if python else _settings())
    todo = f"python {place}" if python else f"maxfl run {place}"
    console.print(f"Written: {place}. Change it, then: {todo}", soft_wrap=True, highlight=False)


def _settings() -> str:
    from maxfl.runs.configs.starter import starter_file

    return starter_file()


def _script() -> str:
    return files("maxfl.cli").joinpath("starter-script.txt").read_text(encoding="utf-8")


def _write_new(place: Path, content: str) -> None:
    """Write a file that is not there yet."""
    try:
        with place.open("x", encoding="utf-8") as opened:
            opened.write(content)
    except FileExistsError:
        raise InputError(
            f"{place} is there already, and stays as it is: name another file"
        ) from None
    except OSError as error:
        raise InputError(f"can't write {place}: {error.strerror}; name another file") from error
