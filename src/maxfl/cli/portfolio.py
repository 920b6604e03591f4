"""``maxfl portfolio``: how many global models a federation needs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from maxfl.cli.commands import ComputingCommand
from maxfl.cli.data import fetch_data
from maxfl.cli.options import ConfigFile, Settings, note_unused, read_settings
from maxfl.cli.run import MaxParallel, Resume
from maxfl.cli.terminal import announce, console, explain_interrupt, progress_bar
from maxfl.utils.errors import InputError

if TYPE_CHECKING:
    from maxfl.report.portfolio.sizes import Sizes

app = typer.Typer()

MODELS = "portfolio.models"


@app.command("portfolio", cls=ComputingCommand)
def portfolio_command(
    config: ConfigFile,
    most: Annotated[int, typer.Option("--most", metavar="K", min=2, help="Try 1 to K models.")] = 5,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, help="Seeds of each, from that of CONFIG.")
    ] = 5,
    share: Annotated[
        float | None,
        typer.Option(
            "--share",
            metavar="S",
            min=0,
            max=1,
            help="Name the smallest K that satisfies this share of the seen clients.",
        ),
    ] = None,
    gain: Annotated[
        float | None,
        typer.Option(
            "--gain",
            metavar="G",
            min=0,
            max=1,
            help="Instead: what a further model must add to be worth it; by default 0.02.",
        ),
    ] = None,
    setting: Settings = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the results; by default runs/<name>-portfolio."),
    ] = None,
    resume: Resume = False,
    max_parallel: MaxParallel = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Find out how many global models a federation needs.

    Trains portfolios of 1 to K models, in which every client picks the one that suits it, and says
    from which number on a further one is not worth it.

    Example: maxfl portfolio run.toml --most 5 --share 0.9
    """  # fmt: skip
    from maxfl.report.portfolio.sizes import GAIN, enough
    from maxfl.report.statistics.compare import FEWEST_SEEDS
    from maxfl.report.write import write_report

    if share is not None and gain is not None:
        raise InputError("--share and --gain are two ways to say what is enough: give one of them")
    folder = out or Path("runs") / f"{config.stem}-portfolio"
    _train(config, setting, folder, most=most, seeds=seeds, resume=resume,
           max_parallel=max_parallel)  # fmt: skip
    family = _read_sizes(folder)
    made = write_report(folder, force=True)
    found = enough(family, share, GAIN if gain is None else gain)
    if as_json:
        typer.echo(json.dumps(_as_json(family, found.models, found.why), indent=2))
        return
    _show(family)
    style = "bold" if found.models is not None else "yellow"
    console.print(f"Enough: {found.why}.", style=style, highlight=False)
    if seeds < FEWEST_SEEDS:
        console.print(f"{seeds} seed{'s tell' if seeds > 1 else ' tells'} little: --seeds "
                      f"{FEWEST_SEEDS} or more.", style="yellow", highlight=False)  # fmt: skip
    console.print(f"Page: {made.folder / 'report.html'}", soft_wrap=True, highlight=False)


def _train(
    config: Path, setting: list[str] | None, folder: Path, *, most: int, seeds: int,
    resume: bool, max_parallel: int | None,
) -> None:  # fmt: skip
    """Run a sweep over the number of models and over seeds."""
    from maxfl.runs.configs.file import validate
    from maxfl.runs.grid import expand, refuse_swept
    from maxfl.runs.plugins.used import require_code
    from maxfl.runs.sweep import run_sweep

    if resume:
        require_code(folder)
    raw, where, changes = read_settings(config, setting)
    if "sweep" in raw:
        raise InputError(
            f"{config} has a table [sweep], and maxfl portfolio makes a sweep of its own: leave it "
            f'out, or use maxfl sweep with --over "{MODELS}=[1,2,3]"'
        )
    if MODELS in changes:
        raise InputError(f"--set {MODELS}: --most says how many models are tried")
    checked = validate(raw, where)
    if checked.portfolio.models > 1:
        announce(f"Note: {MODELS} of {config} does nothing here: --most says how many are tried.")
    first = checked.seed
    swept = {"portfolio": {"models": [*range(1, most + 1)]}, "seed": [*range(first, first + seeds)]}
    grid = expand({**raw, "sweep": swept}, where)
    refuse_swept(grid, changes)
    note_unused(grid.configs)
    fetch_data([one.data for one in grid.configs])
    with explain_interrupt(folder), progress_bar("starting") as bar:
        run_sweep(
            grid, folder, resume=resume, progress=bar.parts, announce=announce,
            max_parallel=max_parallel,
        )  # fmt: skip


def _read_sizes(folder: Path) -> "Sizes":
    from maxfl.report.portfolio.sizes import portfolio_sizes
    from maxfl.report.series import all_series
    from maxfl.report.source import read
    from maxfl.report.statistics.compare import Results, read_traces

    source = read([folder])
    series = all_series(source)
    (family,) = portfolio_sizes(Results(source, series, read_traces(source, series)))
    return family


def _show(family: "Sizes") -> None:
    """Print portfolios by size."""
    from maxfl.report.measures import APPEAL
    from maxfl.report.portfolio.sizes import share_cell
    from maxfl.report.table import plain

    seeds = len(family.sizes[0].seeds)
    table = Table(
        title=escape(f"{family.method}: GM-Appeal by number of models, {seeds} seed"
                     f"{'s' if seeds > 1 else ''} (95 % intervals)"),
        title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for heading in ("models", *family.groups, "last model adds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for size in family.sizes:
        added = size.added.get("seen")
        table.add_row(
            str(size.models),
            *(plain(share_cell(size.appeal[clients])) for clients in family.groups),
            "" if added is None else plain(APPEAL.estimate(added)),
        )
    console.print(table)
    one_model = family.sizes[0].upload
    console.print(
        f"Clients pick by the data that they judge by, and count by their test data. In a round a "
        f"client receives {one_model:.3g} MiB for each model, and sends {one_model:.3g} MiB; with "
        f"secure sums it sends as much as it receives.",
        style="dim", highlight=False,
    )  # fmt: skip


def _as_json(family: "Sizes", models: int | None, why: str) -> dict[str, Any]:
    sizes = [
        {
            "models": size.models,
            "gm_appeal": {g: list(interval) for g, interval in size.appeal.items()},
            "added": {g: list(interval) for g, interval in size.added.items()},
            "download_mib": size.download,
            "upload_mib": size.upload,
        }
        for size in family.sizes
    ]
    return {"enough": models, "why": why, "seeds": family.sizes[0].seeds, "sizes": sizes}
