"""The ``maxfl`` command."""

import os
import sys
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import jax
import typer
from rich.markup import escape

from maxfl.cli import data, flower, paper, theory
from maxfl.cli.demo import run_demo
from maxfl.cli.options import ConfigFile, Settings, note_unused, read_settings
from maxfl.cli.report import report_command, watch_command
from maxfl.cli.terminal import announce, bars, console, errors, hush, resumable, show_summary
from maxfl.distributed.processes import LostError, SharedError, first, in_turn, several, together
from maxfl.distributed.rendezvous import TIMEOUT, join
from maxfl.engine.layout import use_all_cores
from maxfl.runs.build import build
from maxfl.runs.config_file import override, parse_setting, validate
from maxfl.runs.run import run
from maxfl.runs.sweep import expand, refuse_swept, run_sweep, sweep_tables
from maxfl.runs.trackers import tracker
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_json
from maxfl.utils.paths import SUMMARY, user_cache

app = typer.Typer(
    help="Federated learning that keeps its clients: train the global model that most clients "
    "prefer to their own, and see who stays.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)

Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for the results; by default runs/<name of the file>."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Take up an unfinished run where it was cut off.")
]

AtOnce = Annotated[
    int | None,
    typer.Option(
        "--at-once", metavar="N", min=1,
        help="Most clients or configurations at once on a device; lower it if memory runs out.",
    ),
]  # fmt: skip
Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track", metavar="NAME",
        help="Also send metrics to tensorboard, mlflow or wandb (repeatable).",
    ),
]  # fmt: skip

Coordinator = Annotated[
    str | None,
    typer.Option(
        "--coordinator",
        metavar="HOST:PORT",
        help="One of several processes, each with this command: where process 0 is found.",
    ),
]
Processes = Annotated[int | None, typer.Option("--processes", help="How many there are.")]
Process = Annotated[int | None, typer.Option("--process", help="Which one this is, from 0.")]
Distributed = Annotated[
    bool,
    typer.Option("--distributed", help="One of several processes that Slurm or MPI started."),
]
Timeout = Annotated[
    float,
    typer.Option("--timeout", help="Seconds to wait for the other processes, or for their signs."),
]  # fmt: skip

app.command("report")(report_command)
app.command("watch")(watch_command)
app.add_typer(data.app, name="data", no_args_is_help=True)
app.add_typer(paper.app, name="paper", no_args_is_help=True)
app.add_typer(flower.app, name="flower", no_args_is_help=True)
app.add_typer(theory.app, name="theory", no_args_is_help=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(f"maxfl {version('maxfl')}, JAX {jax.__version__}", highlight=False)
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
    """Take the options that stand before any command; ``app``'s own help is shown for them."""


@app.command("run")
def run_command(
    config: ConfigFile,
    setting: Settings = None,
    out: Out = None,
    resume: Resume = False,
    at_once: AtOnce = None,
    track: Track = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
    distributed: Distributed = False,
    timeout: Timeout = TIMEOUT,
) -> None:
    """Train one federation as a TOML file says.

    Example: maxfl run examples/opt-out.toml --set seed=3 --out runs/seed-3
    """
    _join(coordinator, processes, process, distributed, timeout)
    with together():
        raw, where, _ = read_settings(config, setting)
        if "sweep" in raw:
            raise InputError(f"{config} has a table [sweep]: use maxfl sweep")
        checked = validate(raw, where)
        note_unused([checked])
    in_turn(lambda: data.fetch_data([checked.data]))
    folder = out or Path("runs") / config.stem
    with together():
        trackers = [tracker(name) for name in track or []]
        simulation = build([checked], at_once)
    with resumable(folder), bars("starting") as shown:
        settings = checked.model_dump(mode="json")
        run(
            simulation,
            folder,
            resume=resume,
            progress=shown.parts(0, 1),
            config=settings,
            trackers=trackers,
        )
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
    at_once: AtOnce = None,
    track: Track = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
    distributed: Distributed = False,
    timeout: Timeout = TIMEOUT,
) -> None:
    """Train every combination of the lists in a file's sweep table, many at once.

    Example: maxfl sweep examples/opt-out.toml --over "seed=[0,1,2]"
    """
    _join(coordinator, processes, process, distributed, timeout)
    with together():
        raw, where, changes = read_settings(config, setting)
        for text in over or []:
            key, choices = parse_setting(text, "--over")
            raw["sweep"] = [override(table, key, choices) for table in sweep_tables(raw, where)]
        grid = expand(raw, where)
        refuse_swept(grid, changes)
        note_unused(grid.configs)
        trackers = [tracker(name) for name in track or []]
    in_turn(lambda: data.fetch_data([config.data for config in grid.configs]))
    folder = out or Path("runs") / f"{config.stem}-sweep"
    with resumable(folder), bars("starting") as shown:
        run_sweep(
            grid,
            folder,
            resume=resume,
            progress=shown.parts,
            announce=announce,
            trackers=trackers,
            at_once=at_once,
        )
    seeds = len({config.seed for config in grid.configs})
    spread = f", mean ± std over {seeds} seeds" if seeds > 1 else ""
    _show(folder, f"{len(grid.configs)} configurations{spread}")


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("runs/demo"),
    setting: Settings = None,
    resume: Resume = False,
) -> None:
    """MaxFL beside FedAvg on embedded Fashion-MNIST, with clients that may leave: two minutes."""
    with resumable(out):
        run_demo(out, setting or [], resume=resume)


def main() -> None:
    """Run the command; a user's mistake ends in one clear message."""
    use_all_cores()
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(user_cache() / "jax"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    try:
        app()
    except (InputError, LostError) as error:
        hush(False)
        errors.print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        _end(2, alone=not isinstance(error, SharedError))
    except SystemExit as end:
        if end.code:
            _end(end.code, alone=True)
        raise
    except BaseException:
        if several():
            traceback.print_exc()
            _end(1, alone=True)
        raise


def _join(
    coordinator: str | None,
    processes: int | None,
    process: int | None,
    distributed: bool,
    timeout: float,
) -> None:
    """Join the others, if there are any; all but process 0 work without a word."""
    asked = distributed, coordinator, processes, process
    if asked == (False, None, None, None):
        return
    if distributed and asked != (True, None, None, None):
        raise InputError("--distributed finds coordinator, processes and process by itself")
    needed = {"--coordinator": coordinator, "--processes": processes, "--process": process}
    if not distributed and (missing := [name for name, value in needed.items() if value is None]):
        raise InputError(f"{', '.join(needed)} go together: give {' and '.join(missing)} too")
    _keep_stdout()
    join(coordinator, processes, process, timeout=timeout)
    hush(not first())


def _keep_stdout() -> None:
    """Keep standard output for what we print; what connects the processes would write there too."""
    sys.stdout.flush()
    sys.stdout = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding)
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 1)


def _end(code: Any, *, alone: bool) -> None:
    """End with an error. One that the others do not know of ends this process at once.

    Otherwise JAX would wait for them, and they for us.
    """
    if several() and alone:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)
    sys.exit(code)


def _show(folder: Path, title: str) -> None:
    if first():
        show_summary(read_json(folder / SUMMARY)["configurations"], title)
        console.print(f"Results: {folder}", soft_wrap=True)
