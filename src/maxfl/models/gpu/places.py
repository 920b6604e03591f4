"""Which pixels of images a convolution multiplies.

Place p (of an output) and tap t (of the kernel) meet pixel up · p + step · t + shift, down and
across alike; where there is no such pixel, they meet a zero.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Axis(NamedTuple):
    """One dimension of images.

    Attributes:
        places: Number of places.
        pixels: Number of pixels.
        taps: Number of taps.
        up: Pixels from place to place.
        step: Pixels from tap to tap.
        shift: Pixel of the first tap at the first place.
    """

    places: int
    pixels: int
    taps: int
    up: int
    step: int
    shift: int

    @property
    def is_inside(self) -> bool:
        """Whether all places and taps meet pixels."""
        far, last = self.step * (self.taps - 1), self.up * (self.places - 1)
        return self.shift + min(far, 0) >= 0 and self.shift + last + max(far, 0) < self.pixels


class Form(NamedTuple):
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


def windows_form(
    image: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    margins: Sequence[tuple[int, int]],
    dilation: Sequence[int],
) -> Form:
    """Return the form of a convolution.

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

    return Form(*map(axis, image, kernel, strides, margins, dilation))


def turned(form: Form) -> Form:
    """Return the form in which gradients of outputs become those of images.

    Outputs count as images with zeros between them, as many as steps were skipped.
    """

    def turn(axis: Axis) -> Axis:
        outputs = (axis.places - 1) * axis.up + 1
        return Axis(axis.pixels, outputs, axis.taps, 1, -axis.step, -axis.shift)

    return Form(*map(turn, form))


def quarters(form: Form) -> tuple[Form, ...]:
    """Return the forms of the four places that each 2 × 2 of max-pooling sees.

    A row or column left over is dropped.
    """

    def half(axis: Axis, which: int) -> Axis:
        shift = axis.shift + axis.up * which
        return axis._replace(places=axis.places // 2, up=2 * axis.up, shift=shift)

    return tuple(
        Form(half(form.rows, i), half(form.columns, j)) for i in range(2) for j in range(2)
    )
