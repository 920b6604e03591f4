"""``maxfl flower``: a ready app, a federation of real processes on this machine, and rollback."""

import shutil
import time
import tomllib
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from maxfl.cli.options import check_folder
from maxfl.cli.terminal import console, explain_interrupt
from maxfl.report.write import PAGE, write_report
from maxfl.runs.progress import PROGRESS
from maxfl.runs.watch import read_status
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_mapping
from maxfl.utils.paths import EXPERIMENT, ROUND_LOG, SUMMARY

app = typer.Typer(
    help="Real federations on Flower: a ready app, a demo, and going back a few rounds."
)

STATUS_SECONDS = 10.0
"""Between two questions to the SuperLink whether a run still goes on."""
MAX_SECONDS = 3600.0
"""Of a whole run."""


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
    app_folder: Annotated[
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
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
) -> None:
    """Run an app in real Flower processes on this machine: TLS, authenticated nodes, a report.

    Example: maxfl flower demo --nodes 4
    """
    _need_flower()
    check_folder(out)
    results = (out / "federation").resolve()
    if resume and _is_done(results, rounds):
        console.print(f"The federation in {out} is finished already.", soft_wrap=True)
    else:
        _check_free(out, results, resume)
        _run_app(app_folder, nodes, rounds, out, resume)
    report = write_report([results], force=True)
    for line in [*report.verdicts, *report.missing]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(f"Page: {report.folder / PAGE}", soft_wrap=True, highlight=False)
    for text in read_status(results).warnings:
        console.print(f"WARNING: {text}", markup=False, highlight=False, soft_wrap=True)


@app.command("rollback")
def rollback_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="MaxFL's folder.")],
    to: Annotated[int, typer.Option(min=1, help="The round to go back to.")],
) -> None:
    """Go back to after an earlier round, whose model is kept: MaxFL(keep=5) keeps the last five.

    Model, solver and rounds are then those after that round; resume=True goes on from there.

    Example: maxfl flower rollback runs/federation --to 7
    """
    _need_flower()
    from maxfl.flower.monitoring.rollback import roll_back

    done = roll_back(folder, to)
    console.print(
        f"{folder}: back from round {done} to round {to}. Go on with MaxFL(resume=True)",
        soft_wrap=True,
        highlight=False,
    )


def _need_flower() -> None:
    if find_spec("flwr") is None:
        raise InputError("Flower is not installed: pip install 'maxfl[flower]'")


@app.command("prepare")
def prepare_command(
    app_folder: Annotated[Path, typer.Argument(metavar="APP", help="Folder of the app.")],
    node_config: Annotated[
        str,
        typer.Option(
            help="That of the node, with maxfl-requirements, a folder: "
            "'partition-id=3 maxfl-requirements=\"/srv/maxfl\"'."
        ),
    ],
    run_config: Annotated[str, typer.Option(help="Settings of the app, as for `flwr run`.")] = "",
    train_config: Annotated[
        str, typer.Option(help="What the server sends with every model, such as 'lr=0.1'.")
    ] = "",
    model: Annotated[
        Path | None,
        typer.Option(help="The initial model, safetensors, if the requirement begins with it."),
    ] = None,
) -> None:
    """Compute what a client requires before its node joins, and keep it in the node's folder.

    Example: maxfl flower prepare my-federation --node-config 'partition-id=3 num-partitions=4
    maxfl-requirements="/srv/maxfl"'
    """
    _need_flower()
    from maxfl.flower.client.prepare import Node, prepare

    configs = [_parse_config(text) for text in (node_config, run_config, train_config)]
    prepare(app_folder, Node(*configs), model)
    console.print("Prepared: this client's requirement is kept for its node.", soft_wrap=True)


def _parse_config(text: str) -> dict[str, Any]:
    """Read settings as Flower's commands do: 'a=1 b="word"'."""
    from click import ClickException
    from flwr.common.config import parse_config_args

    try:
        return parse_config_args([text])
    except (ClickException, ValueError, OSError) as error:
        raise InputError(f"{text!r:.60} can't be read: {error}") from error


def _run_app(
    app_folder: Path | None, nodes: int, rounds: int | None, out: Path, resume: bool
) -> None:
    """Run an app, or the ready one, in real processes."""
    is_ready, results = app_folder is None, (out / "federation").resolve()
    chosen = app_folder or out / "app"
    if is_ready and not chosen.exists():
        _write_app(chosen)
    settings = {"nodes": nodes, "results": str(results), "resume": resume, "rounds": rounds}
    if is_ready:  # all its clients are made up; others have the right to keep their losses
        settings["collect_losses"] = True
    config = _run_config(chosen, settings)
    with explain_interrupt(out):
        _train(chosen, nodes, config, out / "flower", results)


def _write_app(folder: Path) -> None:
    check_folder(folder, "DIR")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} is there and not empty: choose another folder")
    with as_file(files("maxfl").joinpath("flower/app_template")) as source:
        shutil.copytree(
            source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )


def _check_free(out: Path, results: Path, resume: bool) -> None:
    begun = (results / EXPERIMENT).is_file()
    if resume and not begun:
        raise InputError(f"{out} holds no federation that was stopped: leave --resume out")
    inside = {path.name for path in out.iterdir()} if out.is_dir() else set()
    # What a try that never began has left may be replaced.
    if not resume and inside - {"app", "flower"}:
        state = "a finished" if _is_done(results) else "an unfinished" if begun else "no"
        raise InputError(
            f"{out} is not empty and holds {state} federation: choose another folder with --out"
            f"{', or add --resume' if begun else ''}"
        )


def _run_config(app_folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return those settings that the app has, to be given anew."""
    path = app_folder / "pyproject.toml"
    try:
        declared = tomllib.loads(path.read_text())["tool"]["flwr"]["app"].get("config", {})
    except OSError as error:
        raise InputError(f"{app_folder} holds no Flower app: {path} can't be read") from error
    except (KeyError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is not that of a Flower app: {error}") from error
    if "results" not in declared:
        raise InputError(
            f"{path} has no setting `results` in [tool.flwr.app.config]: its server must hand it "
            f"to MaxFL(folder=...), so that there is something to report"
        )
    if settings.get("rounds") is not None and "rounds" not in declared:
        raise InputError(
            f"{path} has no setting `rounds` in [tool.flwr.app.config]: leave --rounds out"
        )
    return {k: v for k, v in settings.items() if k in declared and v is not None}


def _train(app_folder: Path, nodes: int, config: dict[str, Any], work: Path, results: Path) -> None:
    """Start all processes, wait for the run, and print its rounds meanwhile."""
    from maxfl.flower.local_deployment import deployed

    shutil.rmtree(work, ignore_errors=True)  # of a try that was stopped
    began = time.monotonic()
    with deployed(work.resolve()) as deployment:
        console.print(f"SuperLink: https://{deployment.address}, certificate made for this run")
        for k in range(nodes):
            deployment.start_node({"partition-id": k, "num-partitions": nodes})
        console.print(f"{nodes} SuperNodes, each with a process and a registered key")
        console.print(
            "GM-Appeal is the share of clients whose requirement the model meets; T, where it is "
            "shown, is the temperature of the weights, and s the clients' gaps, which it follows",
            soft_wrap=True,
            highlight=False,
        )
        run = deployment.submit(app_folder, config)
        printed, checked = len(_read_log(results)), time.monotonic()
        while not _is_done(results, config.get("rounds")):
            time.sleep(0.5)
            printed = _print_log(results, printed)
            if time.monotonic() - checked > STATUS_SECONDS:
                checked, status = time.monotonic(), deployment.status(run)
                is_done = _is_done(results, config.get("rounds"))
                if status.startswith("finished") and not is_done:
                    raise InputError(_failure(status, deployment.log_of(run), work))
                if time.monotonic() - began > MAX_SECONDS:
                    raise InputError(f"the run took over an hour; its logs: {work / 'logs'}")
        _print_log(results, printed)
    console.print(f"All processes ended, after {time.monotonic() - began:.0f} s")


def _is_done(results: Path, rounds: int | None = None) -> bool:
    """Return whether all is written, of so many rounds; progress.json is removed in the end."""
    if not (results / SUMMARY).exists() or (results / PROGRESS).exists():
        return False
    try:
        return rounds is None or read_mapping(results / SUMMARY)["rounds"] >= rounds
    except FileNotFoundError:  # a finished run is just being taken up again
        return False


def _failure(status: str, log: str, work: Path) -> str:
    """Return why an app failed, for people: an error that is meant for them, or the log's end."""
    errors = [line.split("InputError: ")[1] for line in log.splitlines() if "InputError: " in line]
    reason = errors[-1] if errors else f"its log ends:\n{log}"
    return f"the app failed ({status}): {reason}\nAll logs: {work / 'logs'}"


def _read_log(results: Path) -> list[str]:
    path = results / ROUND_LOG
    return path.read_text().splitlines() if path.exists() else []


def _print_log(results: Path, printed: int) -> int:
    """Print the lines of the log that are new; return how many there are."""
    lines = _read_log(results)
    for line in lines[printed:]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return len(lines)
