"""``maxfl theory``: the paper's appendix, drawn."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich import box
from rich.table import Table

from maxfl.cli.commands import ComputingCommand
from maxfl.cli.options import check_folder
from maxfl.cli.terminal import console, progress_bar
from maxfl.paper.theory.convergence import ROUNDS, convergence
from maxfl.paper.theory.finding import Finding, write
from maxfl.paper.theory.three_clients import three_clients
from maxfl.paper.theory.two_clients import learning_rate, mean_estimation, surrogates
from maxfl.paper.theory.weight_curve import weight_curve
from maxfl.utils.errors import InputError, check_number

app = typer.Typer(help="Why it works: the paper's theory, drawn and checked.")


def _folder(path: Path) -> Path:
    """Refuse a file where a folder is to be, before any work."""
    check_folder(path)
    return path


def _variance(given: float) -> float:
    """Refuse a variance that is not above 0."""
    check_number("--variance", given, above=0)
    return given


def _temperatures(given: list[float]) -> list[float]:
    """Refuse a temperature that is not above 0, or given twice."""
    check_number("--temperature", given, above=0)
    if twice := [value for value in given if given.count(value) > 1]:
        raise InputError(f"--temperature {twice[0]:g}: give each temperature once")
    return given


def _lengths(rounds: list[int]) -> list[int]:
    """Refuse a single R, through which no slope can be fitted."""
    if len(set(rounds)) < 2:
        raise InputError(f"--rounds {rounds[0]}: give at least two different R, to fit a slope")
    return rounds


Out = Annotated[
    Path, typer.Option("--out", callback=_folder, help="Folder for figure and numbers.")
]
Draws = Annotated[int, typer.Option("--draws", min=1, help="Draws of the empirical means.")]
Variance = Annotated[
    float, typer.Option("--variance", callback=_variance, help="γ², of the empirical means.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the draws.")]
FOLDER = Path("runs/theory")


@app.command("mean-estimation", cls=ComputingCommand)
def mean_estimation_command(
    draws: Draws = 10_000, variance: Variance = 1.0, seed: Seed = 0, out: Out = FOLDER
) -> None:
    """Draw two clients: GM-Appeal of FedAvg falls with heterogeneity, MaxFL's does not."""
    show_finding(mean_estimation(variance, draws, seed), out)


@app.command("surrogates", cls=ComputingCommand)
def surrogates_command(
    draws: Draws = 10_000, variance: Variance = 1.0, seed: Seed = 0, out: Out = FOLDER
) -> None:
    """Draw two clients: convex surrogates change nothing, the sigmoid does."""
    show_finding(surrogates(variance, draws, seed), out)


@app.command("three-clients", cls=ComputingCommand)
def three_clients_command(
    draws: Draws = 2_000, variance: Variance = 1.0, seed: Seed = 0, out: Out = FOLDER
) -> None:
    """Draw three clients: alike, all different, two against one."""
    show_finding(three_clients(variance, draws, seed), out)


@app.command("weight-curve", cls=ComputingCommand)
def weight_curve_command(
    temperature: Annotated[
        list[float],
        typer.Option("--temperature", callback=_temperatures, help="T (repeatable)."),
    ] = [1.0, 0.3],  # noqa: B006 (never changed)
    out: Out = FOLDER,
) -> None:
    """Draw the weight of a client over its gap to the requirement."""
    show_finding(weight_curve(temperature), out)


@app.command("learning-rate", cls=ComputingCommand)
def learning_rate_command(
    half_distance: Annotated[
        float,
        typer.Option(
            "--half-distance", min=0, max=5, help="γ̂, half the distance of the two means."
        ),
    ] = 2.0,
    out: Out = FOLDER,
) -> None:
    """Draw the adaptive step over the model: large where the objective is flat."""
    show_finding(learning_rate(half_distance), out)


@app.command("convergence", cls=ComputingCommand)
def convergence_command(
    rounds: Annotated[
        list[int],
        typer.Option("--rounds", min=2, callback=_lengths, help="R (repeatable, at least two)."),
    ] = list(ROUNDS),  # noqa: B006 (never changed)
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Runs of each R.")] = 3,
    out: Out = FOLDER,
) -> None:
    """Draw the gradient of MaxFL's objective over rounds, beside theorem 1's rate."""
    with progress_bar("training") as bar:
        finding = convergence(rounds, seeds, bar.parts(0, 1))
    show_finding(finding, out)


class TheoryFigure(NamedTuple):
    """A figure of the paper's theory: what it shows, and what makes it."""

    title: str
    make: Callable[[], tuple[Finding, ...]]


FIGURES = {
    "fig:incent": TheoryFigure(
        "the weight of a client over its gap", lambda: (weight_curve((1.0,)),)
    ),
    "fig:mean": TheoryFigure(
        "two clients estimate a mean: GM-Appeal, and other surrogates; lemmas A.1 to A.4",
        lambda: (mean_estimation(), surrogates()),
    ),
    "fig:mean2": TheoryFigure("three clients estimate a mean", lambda: (three_clients(),)),
    "fig:lrtheo": TheoryFigure("the theoretical learning rate", lambda: (learning_rate(2.0),)),
    "theorem:1": TheoryFigure("convergence: the gradient over rounds", lambda: (convergence(),)),
}
"""The paper's theory by its names, for ``maxfl paper``."""


def show_finding(finding: Finding, folder: Path) -> None:
    """Print what a finding shows, and write its files."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in finding.headings:
        table.add_column(heading, justify="right")
    for row in finding.rows:
        table.add_row(*row)
    console.print(table)
    console.print(finding.sentence, highlight=False)
    try:
        paths = write(finding, folder)
    except OSError as error:
        raise InputError(f"can't write into {folder}: {error}; choose another --out") from error
    for path in paths:
        console.print(f"  {path}", soft_wrap=True, highlight=False)
