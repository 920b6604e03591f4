"""``maxfl flower``: a ready app, and a federation of real processes on this machine."""

import shutil
import signal
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from maxfl.cli.terminal import console, resumable
from maxfl.report.write import PAGE, write_report
from maxfl.runs.progress import PROGRESS
from maxfl.utils.errors import InputError
from maxfl.utils.paths import EXPERIMENT, ROUND_LOG, SUMMARY

app = typer.Typer(help="Real federations on Flower: a ready app, and a try on this machine.")

ASK_EVERY = 10.0
"""Seconds between two questions to the SuperLink whether a run still goes on."""
WAIT_MOST = 3600.0


@app.command("new")
def new_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the app.")],
) -> None:
    """Write a small, complete Flower app that trains with MaxFL, to start from.

    Example: maxfl flower new my-federation
    """
    _write_app(folder)
    console.print(f"Written: {folder}. Try it: maxfl flower demo {folder}", soft_wrap=True)


@app.command("demo")
def demo_command(
    own_app: Annotated[
        Path | None,
        typer.Argument(metavar="APP", help="Folder of an app; by default the ready one."),
    ] = None,
    nodes: Annotated[int, typer.Option(min=2, max=64, help="Clients: one process each.")] = 4,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="By default as many as the app says.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for results and logs.")] = Path(
        "runs/flower-demo"
    ),
    resume: Annotated[bool, typer.Option("--resume", help="Go on where it was stopped.")] = False,
) -> None:
    """Run an app in real Flower processes on this machine: TLS, authenticated nodes, a report.

    Example: maxfl flower demo --nodes 4
    """
    if find_spec("flwr") is None:
        raise InputError("Flower is not installed: pip install 'maxfl[flower]'")
    results = (out / "federation").resolve()
    if resume and _is_done(results):
        console.print(f"The federation in {out} is finished already.", soft_wrap=True)
    else:
        _check_free(out, results, resume)
        _run_app(own_app, nodes, rounds, out, resume)
    made = write_report([results], force=True)
    for line in [*made.verdicts, *made.missing]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(f"Page: {made.folder / PAGE}", soft_wrap=True, highlight=False)


def _run_app(own_app: Path | None, nodes: int, rounds: int | None, out: Path, resume: bool) -> None:
    ready, results = own_app is None, (out / "federation").resolve()
    chosen = own_app or out / "app"
    if ready and not chosen.exists():
        _write_app(chosen)
    wanted = {"nodes": nodes, "results": str(results), "resume": resume, "rounds": rounds}
    if ready:  # all its clients are made up; others have the right to keep their losses
        wanted["reveal"] = True
    config = _run_config(chosen, wanted)
    with _ended_by_signals(), resumable(out):
        _train(chosen, nodes, config, out / "flower", results)


def _write_app(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there and not empty: choose another folder")
    with as_file(files("maxfl").joinpath("flower/app_template")) as source:
        shutil.copytree(
            source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )


def _check_free(out: Path, results: Path, resume: bool) -> None:
    begun = (results / EXPERIMENT).is_file()
    if resume and not begun:
        raise InputError(f"{out} holds no federation that was stopped: leave --resume out")
    # What a try that never began has left may be replaced.
    others = {path.name for path in out.iterdir()} - {"app", "flower"} if out.is_dir() else set()
    if not resume and others:
        state = "a finished" if _is_done(results) else "an unfinished" if begun else "no"
        raise InputError(
            f"{out} is not empty and holds {state} federation: choose another folder with --out"
            f"{', or add --resume' if begun else ''}"
        )


def _run_config(own_app: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """What of the app's settings is given anew."""
    path = own_app / "pyproject.toml"
    try:
        about = tomllib.loads(path.read_text())["tool"]["flwr"]["app"]
    except OSError as error:
        raise InputError(f"{own_app} holds no Flower app: {path} can't be read") from error
    except (KeyError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is not that of a Flower app: {error}") from error
    known = about.get("config", {})
    if "results" not in known:
        raise InputError(
            f"{path} has no setting `results` in [tool.flwr.app.config]: its server must hand it "
            f"to MaxFL(folder=...), so that there is something to report"
        )
    return {k: v for k, v in wanted.items() if k in known and v is not None}


def _train(own_app: Path, nodes: int, config: dict[str, Any], place: Path, results: Path) -> None:
    from maxfl.flower.local_deployment import deployed

    shutil.rmtree(place, ignore_errors=True)  # of a try that was stopped
    began = time.monotonic()
    with deployed(place.resolve()) as here:
        console.print(f"SuperLink: https://{here.address}, certificate made for this run")
        for k in range(nodes):
            here.start_node({"partition-id": k, "num-partitions": nodes})
        console.print(f"{nodes} SuperNodes, each with its own process and registered key")
        run = here.submit(own_app, config)
        told, asked = len(_lines(results)), time.monotonic()
        while not _is_done(results):
            time.sleep(0.5)
            told = _tell(results, told)
            if time.monotonic() - asked > ASK_EVERY:
                asked, status = time.monotonic(), here.status(run)
                if status.startswith("finished") and not _is_done(results):
                    raise InputError(_failure(status, here.log_of(run), place))
                if time.monotonic() - began > WAIT_MOST:
                    raise InputError(f"the run took over an hour; its logs: {place / 'logs'}")
        _tell(results, told)
    console.print(f"All processes ended, after {time.monotonic() - began:.0f} s")


def _is_done(results: Path) -> bool:
    """Whether the last is written; progress.json goes after everything else."""
    return (results / SUMMARY).exists() and not (results / PROGRESS).exists()


def _failure(status: str, log: str, place: Path) -> str:
    told = [line.split("InputError: ")[1] for line in log.splitlines() if "InputError: " in line]
    why = told[-1] if told else f"its log ends:\n{log}"
    return f"the app failed ({status}): {why}\nAll logs: {place / 'logs'}"


def _lines(results: Path) -> list[str]:
    path = results / ROUND_LOG
    return path.read_text().splitlines() if path.exists() else []


def _tell(results: Path, told: int) -> int:
    """Print the rounds that are new; gives how many lines there are."""
    lines = _lines(results)
    for line in lines[told:]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return len(lines)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let signals leave the block like an exception does, so that no process stays behind."""
    numbers = (signal.SIGTERM, signal.SIGHUP)  # the second if its terminal is closed
    before = [signal.signal(own, lambda number, _: sys.exit(128 + number)) for own in numbers]
    try:
        yield
    finally:
        for own, handler in zip(numbers, before, strict=True):
            signal.signal(own, handler)
