"""What a report says of portfolios: its tables, and what the page draws."""

from typing import Any, NamedTuple

import numpy as np

from maxfl.report.portfolio.groups import groups_table
from maxfl.report.portfolio.sizes import Sizes, portfolio_sizes, sizes_table
from maxfl.report.statistics.bootstrap import Interval
from maxfl.report.statistics.compare import Results
from maxfl.report.table import Table


class PortfolioSection(NamedTuple):
    """What a report says of portfolios; nothing where there are none.

    Attributes:
        sizes: Of every method that has portfolios of several sizes.
        tables: How many models, and the clients of each.
    """

    sizes: list[Sizes]
    tables: list[Table]

    @property
    def data(self) -> list[dict[str, Any]]:
        """Lay out the sizes for the page."""
        return [
            {
                "case": family.case,
                "method": family.method,
                "models": [size.models for size in family.sizes],
                "appeal": {
                    clients: [_numbers(size.appeal[clients]) for size in family.sizes]
                    for clients in family.groups
                },
            }
            for family in self.sizes
        ]


def portfolio_section(results: Results) -> PortfolioSection:
    """Return what there is to say of portfolios."""
    sizes = portfolio_sizes(results)
    groups = groups_table(results.source, results.traces, results.source.metric)
    tables = [sizes_table(sizes, results)] if sizes else []
    return PortfolioSection(sizes, [*tables, *([groups] if groups else [])])


def _numbers(interval: Interval) -> list[float | None]:
    """Return mean, low and high; JSON has no NaN, so that is null."""
    return [float(f"{v:.4g}") if np.isfinite(v) else None for v in interval]
