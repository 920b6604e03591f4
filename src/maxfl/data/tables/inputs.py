"""From training rows to what all rows are filled in and scaled with.

Means and deviations are those of the training rows of seen clients: a test row, or a client that is
unseen, has no part in them. In a real federation the server would know them from two sums of each
client. The list of a text column's values is not of these rows, but of the whole table:
``features``.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.federation import InputScaling, default_input_scaling
from maxfl.data.dataset import Dataset
from maxfl.utils.errors import InputError

CHUNK = 1 << 14
"""Rows in float64 at a time."""
ROUNDING = 1e-7
"""A deviation below this share of the mean is what rounding leaves of a constant column."""


class Inputs(NamedTuple):
    """How stored features become the model's input.

    Attributes:
        fill: What missing features are filled with, float32[d]; None where none are missing.
        scaling: From features to the model's input.
    """

    fill: NDArray[np.float32] | None
    scaling: InputScaling

    def filled(self, x: NDArray[Any]) -> NDArray[Any]:
        """Fill missing features in, in place."""
        if self.fill is not None:
            np.copyto(x, self.fill, where=np.isnan(x))
        return x


def fit_inputs(dataset: Dataset, training: list[NDArray[np.int64]]) -> Inputs:
    """Take means and deviations of some clients' training rows, where the data set asks for it."""
    if dataset.standardized is None and not dataset.fills_missing:
        return Inputs(None, dataset.input_scaling or default_input_scaling(dataset.x.dtype))
    rows = np.concatenate(training)
    mean = _mean(dataset, rows)
    fill = mean.astype(np.float32) if dataset.fills_missing else None
    if dataset.standardized is None:
        return Inputs(fill, InputScaling())
    total = np.nansum if dataset.fills_missing else np.sum  # what is filled in does not deviate
    squares = sum(total((x - mean) ** 2, 0) for x in _chunks(dataset.x, rows))
    deviation = np.sqrt(squares / len(rows))
    varies = dataset.standardized & (deviation > ROUNDING * np.abs(mean))
    shift = np.where(dataset.standardized, mean, 0)
    scale = np.divide(1, deviation, out=np.ones_like(mean), where=varies)
    return Inputs(fill, InputScaling(shift.astype(np.float32), scale.astype(np.float32)))


def _mean(dataset: Dataset, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean of what is there of each feature, float64[d]."""
    if not dataset.fills_missing:
        return sum(x.sum(0) for x in _chunks(dataset.x, rows)) / len(rows)
    total, count = np.zeros(dataset.x.shape[1]), np.zeros(dataset.x.shape[1], np.int64)
    for x in _chunks(dataset.x, rows):
        total += np.nansum(x, 0)
        count += np.count_nonzero(~np.isnan(x), 0)
    if not count.all():
        names = [dataset.features[i] for i in np.flatnonzero(count == 0)]
        raise InputError(
            f"{dataset.title}: no training row of a seen client has a value in "
            f"{', '.join(map(repr, names))}, so there is no mean to fill in: leave the column out "
            f'of the features, or take missing = "zero"'
        )
    return total / count


def _chunks(x: NDArray[Any], rows: NDArray[np.int64]) -> Iterator[NDArray[np.float64]]:
    for begin in range(0, len(rows), CHUNK):
        yield x[rows[begin : begin + CHUNK]].astype(np.float64)
