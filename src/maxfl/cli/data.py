"""``maxfl data``: which data sets are here, how to get the others, how they are split."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from maxfl.cli.commands import ComputingCommand
from maxfl.cli.options import ConfigFile, Settings, check_name, note_unused, read_settings
from maxfl.cli.signals import Interrupted, interruptible
from maxfl.cli.terminal import console, download_bar, progress_bar
from maxfl.data.locate import DamagedError, cache, find, folders, obtain
from maxfl.data.registry import PAPER_VECTORS, Entry, File, Part, entries, entry
from maxfl.utils.disk_space import format_bytes
from maxfl.utils.errors import InputError, check_choice

if TYPE_CHECKING:
    import numpy as np

    from maxfl.core.federation import Federation
    from maxfl.data.statistics import FederationStats
    from maxfl.runs.configs.data import DataConfig
    from maxfl.runs.configs.run import RunConfig

app = typer.Typer(help="Data sets: what is here, how to get the rest, how they are split.")
Folder = Annotated[
    Path | None, typer.Option("--dir", help="Folder to look in first, before MAXFL_DATA.")
]
MOST_LABELS = 20
"""Classes that are named one by one."""
Vectors = Annotated[str, typer.Option("--vectors", help="GloVe file for tweets, without .txt.")]


@app.command("list")
def list_command(folder: Folder = None, vectors: Vectors = PAPER_VECTORS) -> None:
    """List the data sets: which are here, where, and how to get the others."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("data.source", "what", "state"):
        table.add_column(heading, no_wrap=heading == "data.source")
    for dataset in entries(vectors=vectors):
        table.add_row(dataset.name, dataset.what, _state(dataset, folder))
    console.print(table)
    console.print(
        "maxfl data fetch NAME downloads a data set. Or set MAXFL_DATA to a folder that has the "
        "publishers' files, packed or not, in fmnist/, emnist/, sent140/ and glove/.",
        style="dim",
    )


@app.command("fetch")
def fetch_command(
    name: Annotated[str, typer.Argument(help="A data set of maxfl data list.")],
    part: Annotated[Part, typer.Option("--part", help="Of an image data set.")] = "both",
    vectors: Vectors = PAPER_VECTORS,
    folder: Folder = None,
) -> None:
    """Download what is missing of a data set from its publisher, and check it.

    Example: maxfl data fetch fashion-mnist
    """
    check_name(name, [dataset.name for dataset in entries()], "maxfl data list")
    files, how = entry(name, part, vectors).files, entry(name).how
    if how:
        raise InputError(f"{name} is not downloaded: {how}")
    with download_bar() as progress:
        for file in files:
            console.print(f"{file.name}: {obtain(file, folder, progress)}", soft_wrap=True)
    if not files:
        console.print(f"{name} needs no files.")


@app.command("show", cls=ComputingCommand)
def show_command(
    config: ConfigFile,
    setting: Settings = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The figure; by default <name>-partition.png.")
    ] = None,
) -> None:
    """Draw how a file's settings split the data over clients, and print it as a table.

    A CSV file beside the figure has a row for each client.

    Example: maxfl data show run.toml --set data.alpha=0.05
    """
    import numpy as np

    from maxfl.core.attacks import byzantine_clients
    from maxfl.data.statistics import federation_stats, write_clients
    from maxfl.report.partition_plot import FORMATS, draw_partition
    from maxfl.runs.build import build_federation

    figure = out or Path(f"{config.stem}-partition.png")
    check_choice("the ending of --out", figure.suffix.lower(), FORMATS)
    checked = _without_sweep(config, setting, "shown")
    fetch_data([checked.data])
    federation, fraction = _as_judged(build_federation(checked), checked), checked.attack.fraction
    is_byzantine = byzantine_clients(checked.seed, fraction, federation.seen, federation.clients)
    stats = federation_stats(federation, np.asarray(is_byzantine))
    table = figure.with_suffix(".csv")
    try:
        figure.parent.mkdir(parents=True, exist_ok=True)
        draw_partition(stats, figure)
        write_clients(stats, table)
    except OSError as error:
        raise InputError(f"can't write {figure}: {error}; choose another --out") from error
    console.print(f"[bold]{escape(stats.title)}[/]")
    console.print(_table(stats))
    console.print(_labels(stats, federation.classes), markup=False, highlight=False)
    console.print(
        "Training, judging and test: samples of each client. * Effective number of its labels, "
        "1/Σ share². Labels of flipped clients are shown flipped.",
        style="dim",
    )
    for note in stats.notes:
        console.print(f"Note: {note}.", style="yellow", markup=False, highlight=False)
    console.print(f"Figure: {figure}\nClients: {table}", soft_wrap=True, markup=False)


def _labels(stats: "FederationStats", classes: int | None) -> str:
    """Say what is predicted: numbers, or classes with how many samples there are of each."""
    if classes is None:
        return "Labels are numbers or sequences, not classes."
    counts = stats.counts.sum(0)
    if len(counts) > MOST_LABELS:
        fewest, most = int(counts.min()), int(counts.max())
        return f"Labels: {len(counts)} classes of {fewest:,} to {most:,} samples."
    each = (f"{name} ({count:,})" for name, count in zip(stats.labels, counts, strict=True))
    return f"Labels, with their samples: {', '.join(each)}."


@app.command("write", cls=ComputingCommand)
def write_command(
    config: ConfigFile,
    folder: Annotated[Path, typer.Argument(help="A new or empty folder for the federation.")],
    setting: Settings = None,
) -> None:
    """Write a file's federation to disk, where it may be larger than memory.

    It is trained with data.source = "disk": a cohort at a time is in memory.

    Example: maxfl data write run.toml big
    """
    from maxfl.core.federation_files import open_federation
    from maxfl.runs.build import write_data

    checked = _without_sweep(config, setting, "written")
    fetch_data([checked.data])
    try:
        with interruptible(), progress_bar("drawing samples") as bar:
            report = bar.parts(0, 1)
            write_data(checked, folder, lambda done, total: report("writing", done, total))
    except Interrupted as end:
        console.print(f"{end}. What was written is removed.")
        raise typer.Exit(end.exit_code) from None
    federation = open_federation(folder)
    size = sum(path.stat().st_size for path in folder.iterdir())
    console.print(
        f"{folder}: {federation.clients} clients, {federation.seen} of them seen, "
        f"{_samples(federation)}, {format_bytes(size)}. "
        f'Train them with --set data.source=disk --set "data.folder={folder}"',
        soft_wrap=True, markup=False, highlight=False,
    )  # fmt: skip


def _as_judged(federation: "Federation", config: "RunConfig") -> "Federation":
    """Return a federation with what a run of the configuration holds out, without features.

    Those of a federation on disk need not fit into memory.
    """
    import numpy as np

    from maxfl.core.judging import Judging, with_judging

    train, requirement = federation.train, config.requirement
    bare = federation._replace(train=train._replace(x=np.empty((len(train.y), 0))))
    return with_judging(bare, Judging(requirement.judge, requirement.judge_fraction))


def _samples(federation: "Federation") -> str:
    """Say how many samples there are, and how many of them clients judge by, if any."""
    judging = 0 if federation.judging is None else len(federation.judging.y)
    total = len(federation.train.y) + judging + len(federation.test.y)
    return f"{total} samples" + (f", {judging} of them to judge by" if judging else "")


def _without_sweep(config: Path, setting: list[str] | None, done: str) -> "RunConfig":
    """Read the one configuration of a file, without its sweep."""
    from maxfl.runs.configs.file import validate

    raw, where, _ = read_settings(config, setting)
    if raw.pop("sweep", None) is not None:
        words = f"Note: {done} without the table [sweep]; try its values with --set."
        console.print(words, style="yellow", markup=False)
    checked = validate(raw, where)
    note_unused([checked], "data.")
    return checked


def fetch_data(configs: "Sequence[DataConfig]") -> None:
    """Get the files that some configurations need and that are not here, with a bar."""
    known = {dataset.name for dataset in entries()}
    for data in dict.fromkeys(configs):
        if data.source not in known:  # a file, a folder, or own code
            continue
        with download_bar() as progress:
            for file in entry(data.source, data.part, data.vectors).files:
                obtain(file, data.dir, progress)


def _state(dataset: Entry, folder: Path | None) -> str:
    """Say where a data set is, or what is missing of it and how to get that."""
    if dataset.how:
        return escape(dataset.how)
    if dataset.module and find_spec(dataset.module) is None:
        return "[yellow]missing[/] " + escape(f"pip install 'maxfl[{dataset.name}]'")
    try:
        places = [find(file, folder) for file in dataset.files]
    except DamagedError as error:
        return f"[red]damaged[/] {escape(str(error))}"
    missing = [file for file, place in zip(dataset.files, places, strict=True) if place is None]
    if not missing:
        parents = {str(place.path.parent) for place in places if place}
        return f"[green]here[/] {escape(', '.join(sorted(parents)))}".strip()
    if absent := [file for file in missing if file.download is None]:
        return f"[yellow]missing[/] {escape(absent[0].name)}: put it into {cache(absent[0])}"
    names = ", ".join(file.name for file in missing)
    what = names if len(missing) == 1 else f"{len(missing)} of {len(dataset.files)} files"
    size = sum({f.download.name: f.download.size for f in missing if f.download}.values())
    package = next((f", or package {f.package}" for f in missing if f.package), "")
    return (
        f"[yellow]missing[/] {escape(what)}: maxfl data fetch {dataset.name} "
        f"({size / 1e6:,.0f} MB){escape(package)}{escape(_alternative(dataset, missing, folder))}"
    )


def _alternative(dataset: Entry, missing: Sequence[File], folder: Path | None) -> str:
    """Name a setting that does with what is here: one part of the images, or other vectors."""
    for part in ("train", "test"):
        files = entry(dataset.name, part).files
        if 0 < len(files) < len(dataset.files) and not set(files) & set(missing):
            return f'; here is data.part = "{part}"'
    vectors = sorted(
        path.name.removesuffix(".gz").removesuffix(".txt")
        for file in missing
        if file.folder == "glove"
        for place in folders(file, folder)
        for path in place.glob("glove.*.txt*")
    )
    return f'; here is data.vectors = "{vectors[0]}"' if vectors else ""


def _table(stats: "FederationStats") -> Table:
    """Tabulate sizes and labels of seen and unseen clients; in 80 columns, if need be."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    headings = (
        *("clients", "number", "training"),
        *(["judging"] if stats.judging_sizes.any() else []),
        *("test", "labels*", "flipped", "Byzantine"),
    )
    for i, heading in enumerate(headings):
        side: Any = "left" if i == 0 else "right"
        table.add_column(heading, justify=side, min_width=len(heading))
    for name, group in (("seen", stats.is_seen), ("unseen", ~stats.is_seen)):
        if group.any():
            table.add_row(
                name,
                str(int(group.sum())),
                _range(stats.train_sizes[group]),
                *([_range(stats.judging_sizes[group])] if stats.judging_sizes.any() else []),
                _range(stats.test_sizes[group]),
                f"{stats.effective_labels[group].mean():.1f} of {len(stats.labels)}",
                str(int(stats.flipped[group].sum())),
                str(int(stats.byzantine[group].sum())),
            )
    return table


def _range(sizes: "np.ndarray") -> str:
    """Write smallest, largest and median size, or the one size."""
    import numpy as np

    low, middle, high = sizes.min(), np.median(sizes), sizes.max()
    return str(low) if low == high else f"{low} to {high},\nmedian {middle:.0f}"
