"""The demo: MaxFL beside FedAvg on embedded data, with clients that may leave."""

import tomllib
from importlib.resources import files
from pathlib import Path

from maxfl.cli.terminal import bars, console, show_summary
from maxfl.report.figures import draw_curves
from maxfl.report.series import all_series
from maxfl.report.source import read
from maxfl.runs.config import RunConfig
from maxfl.runs.config_file import override_all, parse_setting
from maxfl.runs.sweep import expand, refuse_swept, run_sweep
from maxfl.utils.files import read_json
from maxfl.utils.paths import SUMMARY

LABELS = {
    ("fedavg", None): "FedAvg",
    ("maxfl", 1.0): "MaxFL (paper)",
    ("maxfl", 0.3): "MaxFL, T = 0.3",
}


def run_demo(folder: Path, settings: list[str], *, resume: bool = False) -> None:
    """Run the demo's sweep with some settings changed, show its table, draw its figure."""
    raw = tomllib.loads(files("maxfl.cli").joinpath("demo.toml").read_text(encoding="utf-8"))
    changes = dict(parse_setting(text) for text in settings)
    raw = override_all(raw, changes)
    grid = expand(raw, "the demo")
    refuse_swept(grid, changes)
    seeds = len({value["seed"] for value in grid.values})
    setting, start = describe_setting(grid.configs[0])
    console.print(f"[bold]Who keeps the model?[/] {setting}.")
    with bars("starting") as shown:
        run_sweep(grid, folder, resume=resume, progress=shown.parts)
    entries = read_json(folder / SUMMARY)["configurations"]
    names = [LABELS[v["algorithm.name"], v.get("algorithm.temperature")] for v in grid.values]
    labelled = [
        {**entry, "values": {"method": name, "seed": entry["values"]["seed"]}}
        for entry, name in zip(entries, names, strict=True)
    ]
    title = f"After {raw['training']['rounds']} rounds, mean ± std over {seeds} seeds"
    show_summary(labelled, title)
    figure = folder / "demo.png"
    title = f"{entries[0]['data']}: {setting}"
    _draw(folder, figure, title, start)
    console.print(
        f"Figure: {figure}\nHow the setting was chosen, and where the advantage vanishes: "
        "docs/demo.md",
        soft_wrap=True,
    )


def _draw(folder: Path, path: Path, title: str, start: int | None) -> None:
    """The report's curves, with the demo's names of the methods."""
    source = read([folder])
    names = {
        own.method: LABELS[own.entry["values"]["algorithm.name"],
                           own.entry["values"].get("algorithm.temperature")]
        for own in source.configurations
    }  # fmt: skip
    series = {k._replace(method=names[k.method]): own for k, own in all_series(source).items()}
    drawn = draw_curves(series, "", list(names.values()), start=start, title=title)
    drawn.savefig(path, dpi=150)


def describe_setting(config: RunConfig) -> tuple[str, int | None]:
    """The setting in words, and the round from which clients may leave, if they may."""
    data, presence = config.data, config.participation
    split = f"Dirichlet {data.alpha}" if data.partition == "dirichlet" else data.partition
    words = f"{data.clients} seen and {data.unseen} unseen clients, {split}"
    if data.flipped:
        words += f", {data.flipped:.0%} with contradicting labels"
    if presence.rule == "everyone" or presence.start >= config.training.rounds:
        return words, None
    return f"{words}; clients may leave after {presence.start} rounds", presence.start
