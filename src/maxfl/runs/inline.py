"""A history, or folders of runs, in a notebook: as a figure, or as the page of a report."""

import html
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxfl.engine.history import History
from maxfl.engine.streaming.stream import StreamedRun
from maxfl.report.names import method_name
from maxfl.runs.frames import known_origin
from maxfl.runs.results import write_history
from maxfl.utils.dicts import flatten
from maxfl.utils.display import one_line
from maxfl.utils.errors import InputError, check_count, shorten
from maxfl.utils.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = History | StreamedRun | str | Path


@dataclass(frozen=True, repr=False)
class ReportPage:
    """The page of a report: in a notebook it is shown, elsewhere ``save`` writes it.

    Attributes:
        html: The whole page, which works offline.
        verdicts: What it says first.
        missing: Sentences on what could not be shown.
        height: Of the frame in a notebook, in pixels.
    """

    html: str
    verdicts: tuple[str, ...]
    missing: tuple[str, ...]
    height: int

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the page to a file; ``force`` replaces one that is there."""
        path = Path(path)
        if path.exists() and not force:
            raise InputError(f"{path} is there already: choose another file, or force=True")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, self.html.encode())
        except OSError as error:
            raise InputError(f"can't write the page to {path}: {error.strerror}") from error
        return path

    def __repr__(self) -> str:
        """Return what the page says first, and how to keep it."""
        size = f"{len(self.html.encode()) / 1e3:,.0f} kB"
        said = " ".join(self.verdicts)
        return one_line("Report", lambda: f'{said} .save("report.html") writes the page, {size}')

    def _repr_html_(self) -> str:
        """Return a frame with the page in it, which can do nothing outside of the frame."""
        # Without a base of its own, a link to a section of the page would lead to the notebook.
        page = self.html.replace("<head>", '<head><base href="about:srcdoc">', 1)
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(page)}" '
            f'style="width:100%;height:{self.height}px;border:1px solid #ccc"></iframe>'
        )


def report(
    results: Result | Sequence[Result], *, height: int = 800, title: str | None = None
) -> ReportPage:
    """Make the page of a report; see ``maxfl.report``, which this is."""
    from maxfl.report.write import PAGE, write_report

    check_count("height", height, least=1)
    with tempfile.TemporaryDirectory() as place:
        folders = _folders(results, Path(place))
        written = write_report(folders, Path(place) / "page", figures=False, title=title)
        page = (written.folder / PAGE).read_text(encoding="utf-8")
    return ReportPage(page, tuple(written.verdicts), tuple(written.missing), height)


def plot(history: History) -> "Figure":
    """Draw GM-Appeal and the first metric of a history over rounds."""
    from maxfl.report.configurations import start_round
    from maxfl.report.figures import draw_curves
    from maxfl.report.series import all_series, drawn_methods
    from maxfl.report.source import read

    with tempfile.TemporaryDirectory() as place:
        source = read(_folders(history, Path(place)))
    series, (case, *_) = all_series(source), source.cases
    return draw_curves(
        series, case, drawn_methods(source, series, case),
        metric=source.metric, start_round=start_round(source.configurations),
    )  # fmt: skip


def _folders(results: Any, place: Path) -> list[Path]:
    """Return folders with all results, those of histories written below ``place``."""
    one = isinstance(results, History | StreamedRun | str | Path)
    if not one and not isinstance(results, Sequence):
        raise InputError(
            f"results = {shorten(results)}: expected a history or a folder, or a list of them"
        )
    return [result_folder(result, place) for result in ([results] if one else results)]


def result_folder(result: Any, place: Path) -> Path:
    """Return the folder of one result, that of a history written below ``place``."""
    if isinstance(result, str | Path):
        return Path(result)
    history = result.history if isinstance(result, StreamedRun) else result
    if not isinstance(history, History):
        raise InputError(f"{shorten(result)} is neither a history nor a folder: give those alone")
    name = re.sub(r"\W+", "-", method_name(flatten(known_origin(history).settings)))
    taken = sum(1 for _ in place.glob(f"{name}*"))
    return write_history(history, place / (f"{name}-{taken + 1}" if taken else name))
