"""A bar with the time left: in a notebook one that changes in place, else one in the terminal."""

import html
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from maxfl.utils.notebook import in_notebook

if TYPE_CHECKING:
    from maxfl.engine.trainer import Progress as Report

LEAST_SECONDS = 0.1
"""Between two drawings."""


@contextmanager
def progress_bar() -> "Iterator[Report]":
    """Show a bar as long as the work goes on; gives the callback that moves it."""
    if in_notebook():
        bar = NotebookBar(_display())
        try:
            yield bar.report
        finally:
            bar.close()
    else:
        with Progress(*bar_columns(), console=Console(stderr=True)) as progress:
            task = progress.add_task("starting", total=None)

            def report(stage: str, done: int, total: int) -> None:
                progress.update(task, description=stage, completed=done, total=total)

            yield report


def bar_columns() -> tuple[ProgressColumn, ...]:
    """Return what stands in a bar of the terminal."""
    return (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )


class Drawn(NamedTuple):
    """A bar as it stands: how full it is, and the words beside it."""

    share: float
    words: str

    def __repr__(self) -> str:
        """Return the words, for where there is no HTML."""
        return self.words

    def _repr_html_(self) -> str:
        return f"<progress value='{self.share:.3f}' max='1'></progress> {html.escape(self.words)}"


class NotebookBar:
    """A bar that is drawn by ``show(drawn)``, again and again in the same place."""

    def __init__(
        self, show: Callable[[Drawn], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._show, self._clock = show, clock
        self._began = self._drawn_at = clock()
        self._stage, self._done, self._total = "", 0, 0
        self._first, self._first_at = 0, self._began

    def report(self, stage: str, done: int, total: int) -> None:
        """Move the bar; a progress callback."""
        now = self._clock()
        if stage == "resumed":
            stage = "rounds"
        is_new = stage != self._stage
        if is_new:  # its first report, which may come after compiling, tells nothing of its pace
            self._first, self._first_at = done, now
        self._stage, self._done, self._total = stage, done, total
        if is_new or now - self._drawn_at >= LEAST_SECONDS:
            self._drawn_at = now
            self._show(Drawn(self._share(), f"{self._words()}{self._left(now)}"))

    def close(self) -> None:
        """Draw the end: how long it took, or how far it came."""
        if self._stage:
            took = f"{self._clock() - self._began:.1f} s"
            is_whole = self._stage == "rounds" and self._done == self._total
            words = f"{self._total:,} rounds" if is_whole else f"stopped at {self._words()},"
            self._show(Drawn(self._share(), f"{words} in {took}"))

    def _words(self) -> str:
        return f"{self._stage}: {self._done:,} of {self._total:,}"

    def _share(self) -> float:
        return self._done / max(self._total, 1)

    def _left(self, now: float) -> str:
        """Say how much time is left, at the pace since the stage's first report."""
        made = self._done - self._first
        if made <= 0 or self._done >= self._total:
            return ""
        seconds = (now - self._first_at) / made * (self._total - self._done)
        return f", about {max(1, round(seconds)):,} s left"


def _display() -> Callable[[Drawn], None]:
    """Return what draws in the cell that runs, at first and then in the same place."""
    from IPython.display import display

    handle: Any = None

    def show(drawn: Drawn) -> None:
        nonlocal handle
        if handle is None:
            handle = display(drawn, display_id=True)
        else:
            handle.update(drawn)

    return show
