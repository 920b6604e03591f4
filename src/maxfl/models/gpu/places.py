"""Which pixels of images a convolution multiplies.

Place p (of an output) and tap t (of the kernel) meet pixel stride · p + dilation · t + offset, down
and across alike; where there is no such pixel, they meet a zero.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Axis(NamedTuple):
    """One dimension of images.

    Attributes:
        places: Number of places.
        pixels: Number of pixels.
        taps: Number of taps.
        stride: Pixels from place to place.
        dilation: Pixels from tap to tap.
        offset: Pixel of the first tap at the first place.
    """

    places: int
    pixels: int
    taps: int
    stride: int
    dilation: int
    offset: int

    @property
    def is_inside(self) -> bool:
        """Whether all places and taps meet pixels."""
        far, last = self.dilation * (self.taps - 1), self.stride * (self.places - 1)
        return self.offset + min(far, 0) >= 0 and self.offset + last + max(far, 0) < self.pixels


class Geometry(NamedTuple):
    """Both dimensions of images."""

    rows: Axis
    columns: Axis

    @property
    def places(self) -> int:
        """Number of places in an image."""
        return self.rows.places * self.columns.places

    @property
    def taps(self) -> int:
        """Number of taps of the kernel."""
        return self.rows.taps * self.columns.taps


Geometries = tuple[Geometry, ...]
"""One, or those of the places that are pooled."""


def window_geometry(
    image: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    margins: Sequence[tuple[int, int]],
    dilation: Sequence[int],
) -> Geometry:
    """Return the geometry of a convolution.

    Args:
        image: Height and width.
        kernel: Rows and columns of it.
        strides: Pixels from window to window.
        margins: Zeros above and below, left and right.
        dilation: Pixels from row to row and from column to column of the kernel.
    """

    def axis(pixels: int, taps: int, s: int, margin: tuple[int, int], d: int) -> Axis:
        room = pixels + sum(margin) - d * (taps - 1) - 1
        return Axis(1 + room // s, pixels, taps, s, d, -margin[0])

    return Geometry(*map(axis, image, kernel, strides, margins, dilation))


def transposed(geometry: Geometry) -> Geometry:
    """Return the geometry in which gradients of outputs become those of images.

    Outputs count as images with zeros between them, as many as steps were skipped.
    """

    def turn(axis: Axis) -> Axis:
        outputs = (axis.places - 1) * axis.stride + 1
        return Axis(axis.pixels, outputs, axis.taps, 1, -axis.dilation, -axis.offset)

    return Geometry(*map(turn, geometry))


def even(geometry: Geometry) -> Geometry:
    """Return the geometry of places that are pooled two by two: what is left over is dropped."""
    return Geometry(*(axis._replace(places=axis.places // 2 * 2) for axis in geometry))


def pooled_geometries(geometry: Geometry) -> Geometries:
    """Return the geometries of the four places that each 2 × 2 of max-pooling sees."""

    def half(axis: Axis, which: int) -> Axis:
        offset = axis.offset + axis.stride * which
        return axis._replace(places=axis.places // 2, stride=2 * axis.stride, offset=offset)

    rows, columns = ([half(axis, which) for which in range(2)] for axis in geometry)
    return tuple(Geometry(row, column) for row in rows for column in columns)
