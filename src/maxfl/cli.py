"""The ``maxfl`` command."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import jax
import typer
from rich.markup import escape

from maxfl.config import (
    RunConfig,
    override,
    override_all,
    parse_setting,
    read_toml,
    unused,
    validate,
)
from maxfl.demo import run_demo
from maxfl.errors import InputError
from maxfl.experiment import build
from maxfl.layout import use_all_cores
from maxfl.runs import SUMMARY, read_json, run
from maxfl.sweep import expand, run_sweep, sweep_tables
from maxfl.terminal import bars, console, errors, show_summary

app = typer.Typer(
    help="Federated learning that keeps its clients: train the global model that most clients "
    "prefer to their own, and see who stays.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)

ConfigFile = Annotated[Path, typer.Argument(help="A TOML file; see docs/configuration.md.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. training.rounds=50."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for the results; by default runs/<name of the file>."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Take up an unfinished run where it was cut off.")
]


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(f"maxfl {version('maxfl')}, JAX {jax.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say which it is."),
    ] = False,
) -> None:
    """Options of the command itself; the help of the app is its text."""


@app.command("run")
def run_command(
    config: ConfigFile, setting: Settings = None, out: Out = None, resume: Resume = False
) -> None:
    """Train one federation as a TOML file says.

    Example: maxfl run examples/opt-out.toml --set seed=3 --out runs/seed-3
    """
    raw, where = _read(config, setting)
    if "sweep" in raw:
        raise InputError(f"{config} has a table [sweep]: use maxfl sweep")
    checked = validate(raw, where)
    _note_unused([checked])
    folder = out or Path("runs") / config.stem
    simulation = build([checked])
    with _resumable(folder), bars("starting") as shown:
        settings = checked.model_dump(mode="json")
        run(simulation, folder, resume=resume, progress=shown.parts(0, 1), config=settings)
    rounds = checked.training.rounds
    _show(folder, f"{checked.algorithm.name} after {rounds} round{'s' if rounds > 1 else ''}")


@app.command("sweep")
def sweep_command(
    config: ConfigFile,
    setting: Settings = None,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over", metavar="KEY=[...]", help="Add a list to sweep over, e.g. seed=[0,1,2]."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the results; by default runs/<name>-sweep."),
    ] = None,
    resume: Resume = False,
) -> None:
    """Train every combination of the lists in a file's sweep table, many at once.

    Example: maxfl sweep examples/opt-out.toml --over "seed=[0,1,2]"
    """
    raw, where = _read(config, setting)
    for text in over or []:
        key, choices = parse_setting(text, "--over")
        raw["sweep"] = [override(table, key, choices) for table in sweep_tables(raw, where)]
    grid = expand(raw, where)
    for key in dict(parse_setting(text) for text in setting or []):
        if all(key in values for values in grid.values):
            raise InputError(f"--set {key}: {where} sweeps over it; change the list with --over")
    _note_unused(grid.configs)
    folder = out or Path("runs") / f"{config.stem}-sweep"
    with _resumable(folder), bars("starting") as shown:
        run_sweep(grid, folder, resume=resume, progress=shown.parts)
    _show(folder, f"{len(grid.configs)} configurations")


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("runs/demo"),
    setting: Settings = None,
    resume: Resume = False,
) -> None:
    """MaxFL beside FedAvg on embedded Fashion-MNIST, with clients that may leave: two minutes."""
    with _resumable(out):
        run_demo(out, setting or [], resume=resume)


def main() -> None:
    """Run the command; a user's mistake ends in one clear message."""
    use_all_cores()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "maxfl" / "jax"
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    try:
        app()
    except InputError as error:
        errors.print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Tell how to go on after Ctrl-C, or when the disk is full."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{error}. {folder} keeps what is done: mend it, then add --resume to go on"
        ) from error
    except KeyboardInterrupt:
        errors.print(
            f"Interrupted. {escape(str(folder))} keeps what is done: add --resume to go on."
        )
        raise typer.Exit(130) from None


def _read(config: Path, settings: list[str] | None) -> tuple[dict[str, Any], str]:
    """The file with the settings changed, and how to call it in messages."""
    changes = dict(parse_setting(text) for text in settings or [])
    where = f"{config} with --set {', '.join(changes)}" if changes else str(config)
    return override_all(read_toml(config), changes), where


def _note_unused(configs: Sequence[RunConfig]) -> None:
    """Point at settings that do nothing in any configuration."""
    for note in unused(configs[0]):
        if all(note in unused(config) for config in configs[1:]):
            errors.print(f"Note: {note}.", style="yellow", markup=False, highlight=False)


def _show(folder: Path, title: str) -> None:
    show_summary(read_json(folder / SUMMARY)["configurations"], title)
    console.print(f"Results: {folder}", soft_wrap=True)
