"""``maxfl demo``: MaxFL beside FedAvg on embedded data, with clients that contradict each other."""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maxfl.cli.commands import ComputingCommand
from maxfl.cli.options import Settings
from maxfl.cli.terminal import console, explain_interrupt, progress_bar, show_summary
from maxfl.utils.links import page_url
from maxfl.utils.paths import SUMMARY

if TYPE_CHECKING:
    from maxfl.runs.configs.run import RunConfig

app = typer.Typer()

LABELS = {"fedavg": "FedAvg", "maxfl": "MaxFL, T = 1", "maxfl-auto": "MaxFL auto"}


@app.command("demo", cls=ComputingCommand)
def demo_command(
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("runs/demo"),
    setting: Settings = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted demo.")] = False,
) -> None:
    """Train MaxFL beside FedAvg on real images: one to two minutes.

    The embedded subset of Fashion-MNIST, with clients that contradict each other.
    """
    with explain_interrupt(out):
        run_demo(out, setting or [], resume=resume)


def run_demo(folder: Path, settings: list[str], *, resume: bool = False) -> None:
    """Run the demo's sweep with some settings changed, show its table, draw its figure."""
    from maxfl.runs.configs.file import override_all, parse_setting
    from maxfl.runs.grid import expand, refuse_swept
    from maxfl.runs.sweep import run_sweep
    from maxfl.utils.files import read_json

    raw = tomllib.loads(files("maxfl.cli").joinpath("demo.toml").read_text(encoding="utf-8"))
    changes = dict(parse_setting(text) for text in settings)
    raw = override_all(raw, changes)
    grid = expand(raw, "the demo")
    refuse_swept(grid, changes)
    seeds = len({value["seed"] for value in grid.values})
    setting, start_round = describe_setting(grid.configs[0])
    console.print(f"[bold]Who keeps the model?[/] {setting}.")
    with progress_bar("starting") as bar:
        run_sweep(grid, folder, resume=resume, progress=bar.parts)
    entries = read_json(folder / SUMMARY)["configurations"]
    names = [LABELS[values["algorithm.name"]] for values in grid.values]
    labelled = [
        {**entry, "values": {"method": name, "seed": entry["values"]["seed"]}}
        for entry, name in zip(entries, names, strict=True)
    ]
    title = f"After {raw['training']['rounds']} rounds, mean ± std over {seeds} seeds"
    show_summary(labelled, title)
    figure = folder / "demo.png"
    title = f"{entries[0]['data']}: {setting}"
    _draw(folder, figure, title, start_round)
    console.print(
        f"Figure: {figure}\nResults: {folder}; look at them: maxfl report {folder}\n"
        f"How the setting was chosen, and where the advantage vanishes: {page_url('demo')}",
        soft_wrap=True,
        highlight=False,
    )


def _draw(folder: Path, path: Path, title: str, start_round: int | None) -> None:
    """Draw the report's curves, with the demo's names of the methods."""
    from maxfl.report.figures import draw_curves
    from maxfl.report.series import all_series
    from maxfl.report.source import read

    source = read([folder])
    names = {}
    for configuration in source.configurations:
        names[configuration.method] = LABELS[configuration.entry["values"]["algorithm.name"]]
    series = {
        key._replace(method=names[key.method]): metric for key, metric in all_series(source).items()
    }
    figure = draw_curves(
        series, "", list(names.values()), metric=source.metric, start_round=start_round, title=title
    )
    figure.savefig(path, dpi=150)


def describe_setting(config: "RunConfig") -> tuple[str, int | None]:
    """Return the setting in words, and the round from which clients may leave, if they may."""
    data, participation = config.data, config.participation
    split = f"Dirichlet {data.alpha}" if data.partition == "dirichlet" else data.partition
    words = f"{data.clients} seen and {data.unseen} unseen clients, {split}"
    if data.flipped_fraction:
        words += f", {100 * data.flipped_fraction:.0f} % with contradicting labels"
    start_round = participation.start_round
    if participation.rule == "everyone" or start_round >= config.training.rounds:
        return words, None
    return f"{words}; clients may leave after {start_round} rounds", start_round
