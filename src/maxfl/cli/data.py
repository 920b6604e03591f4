"""``maxfl data``: which data sets are here, how to get the others, how they are split."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from maxfl.cli.options import ConfigFile, Settings, note_unused, read_settings
from maxfl.cli.terminal import bars, console, download_bar
from maxfl.core.attacks import liars
from maxfl.core.federation_files import open_federation
from maxfl.data.locate import DamagedError, cache, find, folders, obtain
from maxfl.data.registry import PAPER_VECTORS, Entry, File, Part, entries, entry
from maxfl.data.statistics import Portrait, portrait, write_clients
from maxfl.report.partition_plot import FORMATS, draw_partition
from maxfl.runs.build import build_federation, write_data
from maxfl.runs.config import DataConfig, RunConfig
from maxfl.runs.config_file import validate
from maxfl.utils.disk_space import readable
from maxfl.utils.errors import InputError, check_choice

app = typer.Typer(help="Data sets: what is here, how to get the rest, how they are split.")
Folder = Annotated[
    Path | None, typer.Option("--dir", help="Folder to look in first, before MAXFL_DATA.")
]
Vectors = Annotated[str, typer.Option("--vectors", help="GloVe file for tweets, without .txt.")]


@app.command("list")
def list_command(folder: Folder = None, vectors: Vectors = PAPER_VECTORS) -> None:
    """List the data sets: which are here, where, and how to get the others."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("data.source", "what", "state"):
        table.add_column(heading, no_wrap=heading == "data.source")
    for own in entries(vectors=vectors):
        table.add_row(own.name, own.what, _state(own, folder))
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
    check_choice("data set", name, [own.name for own in entries()])
    files = entry(name, part, vectors).files
    with download_bar() as progress:
        for file in files:
            console.print(f"{file.name}: {obtain(file, folder, progress)}", soft_wrap=True)
    if not files:
        console.print(f"{name} needs no files.")


@app.command("show")
def show_command(
    config: ConfigFile,
    setting: Settings = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The figure; by default <name>-partition.png.")
    ] = None,
) -> None:
    """Draw how a file's settings split the data over clients, and print it as a table.

    A CSV file beside the figure has a row for each client.

    Example: maxfl data show examples/opt-out.toml --set data.alpha=0.05
    """
    figure = out or Path(f"{config.stem}-partition.png")
    check_choice("the ending of --out", figure.suffix.lower(), FORMATS)
    checked = _one(config, setting, "shown")
    fetch_data([checked.data])
    federation, share = build_federation(checked), checked.adversary.share
    lies = liars(checked.seed, share, federation.seen, federation.clients)
    seen = portrait(federation, np.asarray(lies))
    table = figure.with_suffix(".csv")
    try:
        figure.parent.mkdir(parents=True, exist_ok=True)
        draw_partition(seen, figure)
        write_clients(seen, table)
    except OSError as error:
        raise InputError(f"can't write {figure}: {error}; choose another --out") from error
    console.print(f"[bold]{escape(seen.title)}[/]")
    console.print(_table(seen))
    console.print(
        "* 1/Σ share²: rare labels count little. Labels of flipped clients are shown flipped.",
        style="dim",
    )
    for note in seen.notes:
        console.print(f"Note: {note}.", style="yellow", markup=False, highlight=False)
    console.print(f"Figure: {figure}\nClients: {table}", soft_wrap=True, markup=False)


@app.command("write")
def write_command(
    config: ConfigFile,
    folder: Annotated[Path, typer.Argument(help="A new or empty folder for the federation.")],
    setting: Settings = None,
) -> None:
    """Write a file's federation to disk, where it may be larger than memory.

    It is trained with data.source = "disk": a cohort at a time is in memory.

    Example: maxfl data write examples/large.toml big
    """
    checked = _one(config, setting, "written")
    fetch_data([checked.data])
    with bars("drawing samples") as shown:
        report = shown.parts(0, 1)
        write_data(checked, folder, lambda done, total: report("writing", done, total))
    federation = open_federation(folder)
    size = sum(path.stat().st_size for path in folder.iterdir())
    console.print(
        f"{folder}: {federation.clients} clients, {federation.seen} of them seen, "
        f"{len(federation.train.y) + len(federation.test.y)} samples, {readable(size)}. "
        f'Train them with --set data.source=disk --set "data.folder={folder}"',
        soft_wrap=True, markup=False, highlight=False,
    )  # fmt: skip


def _one(config: Path, setting: list[str] | None, done: str) -> RunConfig:
    """The one configuration of a file, without its sweep."""
    raw, where, _ = read_settings(config, setting)
    if raw.pop("sweep", None) is not None:
        words = f"Note: {done} without the table [sweep]; try its values with --set."
        console.print(words, style="yellow", markup=False)
    checked = validate(raw, where)
    note_unused([checked], "data.")
    return checked


def fetch_data(configs: Sequence[DataConfig]) -> None:
    """Get the files that some configurations need and that are not here, with a bar."""
    for data in dict.fromkeys(configs):
        if data.source in ("arrays", "disk"):
            continue
        with download_bar() as progress:
            for file in entry(data.source, data.part, data.vectors).files:
                obtain(file, data.dir, progress)


def _state(own: Entry, folder: Path | None) -> str:
    """Where a data set is, or what is missing of it and how to get that."""
    if own.module and find_spec(own.module) is None:
        return "[yellow]missing[/] " + escape(f"pip install 'maxfl[{own.name}]'")
    try:
        places = [find(file, folder) for file in own.files]
    except DamagedError as error:
        return f"[red]damaged[/] {escape(str(error))}"
    missing = [file for file, place in zip(own.files, places, strict=True) if place is None]
    if not missing:
        parents = {str(place.path.parent) for place in places if place}
        return f"[green]here[/] {escape(', '.join(sorted(parents)))}".strip()
    if absent := [file for file in missing if file.download is None]:
        return f"[yellow]missing[/] {escape(absent[0].name)}: put it into {cache(absent[0])}"
    names = ", ".join(file.name for file in missing)
    shown = names if len(missing) == 1 else f"{len(missing)} of {len(own.files)} files"
    size = sum({f.download.name: f.download.size for f in missing if f.download}.values())
    package = next((f", or package {f.package}" for f in missing if f.package), "")
    return (
        f"[yellow]missing[/] {escape(shown)}: maxfl data fetch {own.name} "
        f"({size / 1e6:,.0f} MB){escape(package)}{escape(_what_is_here(own, missing, folder))}"
    )


def _what_is_here(own: Entry, missing: Sequence[File], folder: Path | None) -> str:
    """A setting that does with what is here: one part of the images, or other word vectors."""
    for part in ("train", "test"):
        files = entry(own.name, part).files
        if 0 < len(files) < len(own.files) and not set(files) & set(missing):
            return f'; here is data.part = "{part}"'
    vectors = sorted(
        path.name.removesuffix(".gz").removesuffix(".txt")
        for file in missing
        if file.folder == "glove"
        for place in folders(file, folder)
        for path in place.glob("glove.*.txt*")
    )
    return f'; here is data.vectors = "{vectors[0]}"' if vectors else ""


def _table(seen: Portrait) -> Table:
    """Sizes and labels of seen and unseen clients."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = (
        *("clients", "number", "training samples", "test samples", "labels each*"),
        *("flipped", "Byzantine"),
    )
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i == 0 else "right")
    for name, group in (("seen", seen.is_seen), ("unseen", ~seen.is_seen)):
        if group.any():
            table.add_row(
                name,
                str(int(group.sum())),
                _range(seen.train_sizes[group]),
                _range(seen.test_sizes[group]),
                f"{seen.effective_labels[group].mean():.1f} of {len(seen.labels)}",
                str(int(seen.flipped[group].sum())),
                str(int(seen.byzantine[group].sum())),
            )
    return table


def _range(sizes: np.ndarray) -> str:
    """Smallest, median and largest, or the one size."""
    low, middle, high = sizes.min(), np.median(sizes), sizes.max()
    return str(low) if low == high else f"{low} to {high}, median {middle:.0f}"
