"""From written tables to a page, figures, tables for papers and model cards.

Here: reading folders of results, also those of older versions, and showing what is in them. A
report reads files alone: nothing here knows the engine, and what runs write is decided in ``runs``.

``maxfl.report(history or folder)`` shows the page in a notebook: the package can be called.
"""

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxfl.runs.inline import ReportPage, Result


class _Callable(ModuleType):
    """This package, which has the name that users give to what it does."""

    def __call__(
        self,
        results: "Result | Sequence[Result]",
        *,
        height: int = 800,
        title: str | None = None,
    ) -> "ReportPage":
        """Make the page of a report, which a notebook shows where the call stands last in a cell.

        Nothing is left on the disk; ``.save(path)`` writes the page, and ``maxfl.write_report`` a
        folder with tables and figures.

        Args:
            results: Histories that ``simulate`` or ``stream`` returned, or folders of runs, sweeps
                and studies; one, or a list of those that are to be compared.
            height: Of the frame in a notebook, in pixels.
            title: Of the page; by default the names of the folders.
        """
        from maxfl.runs.inline import report

        return report(results, height=height, title=title)


sys.modules[__name__].__class__ = _Callable
