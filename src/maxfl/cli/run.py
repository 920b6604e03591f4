"""``maxfl run`` and ``maxfl sweep``: train what a TOML file says, in one process or several."""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple, NoReturn

import click
import typer

from maxfl.cli.commands import ComputingCommand
from maxfl.cli.data import fetch_data
from maxfl.cli.options import (
    ConfigFile,
    Settings,
    note_unused,
    note_unused_beside_data,
    read_settings,
    renamed,
)
from maxfl.cli.terminal import (
    announce,
    console,
    explain_interrupt,
    print_error,
    progress_bar,
    set_quiet,
    show_summary,
)
from maxfl.distributed.liveness import TIMEOUT
from maxfl.utils.errors import InputError
from maxfl.utils.paths import SUMMARY

app = typer.Typer()

Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for the results; by default runs/<name of the file>."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")]
MaxParallel = Annotated[
    int | None,
    typer.Option(
        "--max-parallel", metavar="N", min=1,
        help="Most clients or configurations at once on a device; lower it if memory runs out.",
    ),
]  # fmt: skip
AtOnce = Annotated[int | None, renamed("--at-once", "--max-parallel")]
Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track", metavar="NAME",
        help="Also send metrics to tensorboard, mlflow or wandb (repeatable).",
    ),
]  # fmt: skip

PEERS = "Several processes, each started with this command"
Coordinator = Annotated[
    str | None,
    typer.Option(
        "--coordinator", metavar="HOST:PORT", rich_help_panel=PEERS,
        help="Where process 0 is found: any free port of its machine.",
    ),
]  # fmt: skip
Processes = Annotated[
    int | None, typer.Option("--processes", rich_help_panel=PEERS, help="How many there are.")
]
Process = Annotated[
    int | None, typer.Option("--process", rich_help_panel=PEERS, help="Which one this is, from 0.")
]
Distributed = Annotated[
    bool,
    typer.Option(
        "--distributed", rich_help_panel=PEERS,
        help="Instead of these three, where Slurm or MPI has started the processes.",
    ),
]  # fmt: skip
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", rich_help_panel=PEERS,
        help="Seconds to wait for the other processes, or for their heartbeats.",
    ),
]  # fmt: skip


@app.command("run", cls=ComputingCommand)
def run_command(
    config: ConfigFile,
    setting: Settings = None,
    out: Out = None,
    resume: Resume = False,
    max_parallel: MaxParallel = None,
    _at_once: AtOnce = None,
    track: Track = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
    distributed: Distributed = False,
    timeout: Timeout = TIMEOUT,
) -> None:
    """Train one federation as a TOML file says.

    Example: maxfl run run.toml --set seed=3 --out runs/seed-3
    """
    from maxfl.distributed.processes import in_order, raise_together
    from maxfl.runs.build import build
    from maxfl.runs.configs.file import validate
    from maxfl.runs.grid import expand
    from maxfl.runs.plugins.used import code_of, require_code
    from maxfl.runs.run import run
    from maxfl.runs.tables import Labels
    from maxfl.runs.trackers import tracker

    folder = out or Path("runs") / config.stem
    with _joined(_Peers(coordinator, processes, process, distributed), timeout):
        with raise_together():
            if resume:
                require_code(folder)
            raw, where, _ = read_settings(config, setting)
            if "sweep" in raw:
                expand(raw, where, force=True)  # so that wrong keys show first
                raise InputError(f"{config} has a table [sweep]: use maxfl sweep")
            checked = validate(raw, where)
            note_unused([checked])
        in_order(lambda: fetch_data([checked.data]))
        with raise_together():
            trackers = [tracker(name) for name in track or []]
            simulation = build([checked], max_parallel)
            note_unused_beside_data(checked, simulation.session.experiment.federation)
        with explain_interrupt(folder), progress_bar("starting") as bar:
            run(
                simulation,
                folder,
                resume=resume,
                progress=bar.parts(0, 1),
                labels=Labels(config=checked.as_json(), code=code_of([checked])),
                trackers=trackers,
            )
        rounds, models = checked.training.rounds, checked.portfolio.models
        several = f" with {models} models" if models > 1 else ""
        length = f"{rounds} round{'s' if rounds > 1 else ''}"
        _show(folder, f"{checked.algorithm.name}{several} after {length}")


@app.command("sweep", cls=ComputingCommand)
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
    force: Annotated[
        bool, typer.Option("--force", help="Run more than 10,000 configurations.")
    ] = False,
    max_parallel: MaxParallel = None,
    _at_once: AtOnce = None,
    track: Track = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
    distributed: Distributed = False,
    timeout: Timeout = TIMEOUT,
) -> None:
    r"""Train every combination of some settings, many at once.

    The settings are lists in a file's table \[sweep].

    Example: maxfl sweep run.toml --over "seed=[0,1,2]"
    """
    from maxfl.distributed.processes import in_order, raise_together
    from maxfl.runs.configs.file import override, parse_setting
    from maxfl.runs.grid import expand, refuse_swept, sweep_tables
    from maxfl.runs.plugins.used import require_code
    from maxfl.runs.sweep import run_sweep
    from maxfl.runs.trackers import tracker

    folder = out or Path("runs") / f"{config.stem}-sweep"
    with _joined(_Peers(coordinator, processes, process, distributed), timeout):
        with raise_together():
            if resume:
                require_code(folder)
            raw, where, changes = read_settings(config, setting)
            swept: set[str] = set()
            for text in over or []:
                key, choices = parse_setting(text, "--over")
                if key in swept:
                    raise InputError(f"--over {key} is given twice: put all values into one list")
                swept.add(key)
                raw["sweep"] = [override(table, key, choices) for table in sweep_tables(raw, where)]
            grid = expand(raw, where, force=force, announce=announce)
            refuse_swept(grid, changes)
            note_unused(grid.configs)
            trackers = [tracker(name) for name in track or []]
        in_order(lambda: fetch_data([config.data for config in grid.configs]))
        with explain_interrupt(folder), progress_bar("starting") as bar:
            run_sweep(
                grid,
                folder,
                resume=resume,
                progress=bar.parts,
                announce=announce,
                trackers=trackers,
                max_parallel=max_parallel,
            )
        seeds = len({config.seed for config in grid.configs})
        spread = f", mean ± std over {seeds} seeds" if seeds > 1 else ""
        _show(folder, f"{len(grid.configs)} configurations{spread}", is_sweep=True)


class _Peers(NamedTuple):
    """The other processes of this run, as options name them."""

    coordinator: str | None
    processes: int | None
    process: int | None
    distributed: bool


@contextmanager
def _joined(peers: _Peers, timeout: float) -> Iterator[None]:
    """Work with the other processes, if there are any; all but process 0 do so without a word.

    An error that the others do not know of ends this process at once. Otherwise JAX would wait for
    them, and they for this one.
    """
    if peers == _Peers(None, None, None, distributed=False):
        yield
        return
    from maxfl.distributed.processes import LostPeerError, SharedError, is_distributed, is_leader
    from maxfl.distributed.rendezvous import join

    coordinator, processes, process, distributed = peers
    if distributed and peers != _Peers(None, None, None, distributed=True):
        raise InputError("--distributed finds coordinator, processes and process by itself")
    needed = {"--coordinator": coordinator, "--processes": processes, "--process": process}
    if not distributed and (missing := [name for name, value in needed.items() if value is None]):
        raise InputError(f"{', '.join(needed)} go together: give {' and '.join(missing)} too")
    _keep_stdout()
    try:
        join(coordinator, processes, process, timeout=timeout)
        set_quiet(not is_leader())
        yield
    except BaseException as error:
        set_quiet(False)
        if isinstance(error, SharedError) or not is_distributed():
            raise
        if isinstance(error, InputError | LostPeerError):
            print_error(error)
            _end_at_once(2)
        if isinstance(error, click.exceptions.Exit):
            _end_at_once(error.exit_code)
        traceback.print_exc()
        _end_at_once(1)


def _keep_stdout() -> None:
    """Keep standard output for what we print; what connects the processes would write there too."""
    sys.stdout.flush()
    sys.stdout = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding)
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 1)


def _end_at_once(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _show_models(groups: dict[str, list[dict[str, int]]]) -> None:
    """Print how many clients picked each of several models, and how many of these it satisfies."""
    for group, models in groups.items():
        each = ", ".join(f"{one['satisfied']} of {one['clients']}" for one in models)
        console.print(f"Satisfied {group} clients of each model: {each}.", highlight=False)


def _show(folder: Path, title: str, *, is_sweep: bool = False) -> None:
    from maxfl.cli.compare import show_standing
    from maxfl.distributed.processes import is_leader
    from maxfl.utils.files import read_json
    from maxfl.utils.integrity import explain_damage

    if is_leader():
        with explain_damage(str(folder / SUMMARY)):
            entries = read_json(folder / SUMMARY)["configurations"]
            show_summary(entries, title)
            if len(entries) == 1:
                _show_models(entries[0].get("portfolio", {}))
            if is_sweep:
                show_standing(folder)
        console.print(f"Results: {folder}", soft_wrap=True)
