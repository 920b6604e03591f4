"""How objects show themselves: one line of text, and in a notebook a small table.

Neither may fail or take long, since error messages and debuggers print whatever they meet: arrays
that are being traced or lie on a device are named by their shape.
"""

import html
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

Rows = Iterable[tuple[str, object]]
MOST_NAMED = 5
"""Of many clients, that a message names."""
MOST_NUMBERS = 6
"""Of a list that is written out; of a longer one, the first and the last."""
LEFT = "style='text-align:left'"


def one_line(name: str, words: Callable[[], str]) -> str:
    """Return ``name(words)``; where the words can't be found out, ``name(…)``."""
    try:
        return f"{name}({words()})"
    except Exception:
        return f"{name}(…)"


def html_table(title: str, rows: Callable[[], Rows]) -> str:
    """Return a table with a title and a row for each pair of words; all of them are escaped."""
    try:
        body = "".join(_row(name, value) for name, value in rows())
    except Exception:
        body = ""
    return f"<table><caption {LEFT}><b>{_text(title)}</b></caption>{body}</table>"


def numbers(value: Any) -> str:
    """Write a number or a list of them; of an array that is no NumPy array, type and shape."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        return array_type(value)
    if not isinstance(value, Sequence) or isinstance(value, str | range):
        return repr(value)
    if len(value) <= MOST_NUMBERS:
        return f"[{', '.join(map(numbers, value))}]"
    return f"[{numbers(value[0])}, {numbers(value[1])}, … {numbers(value[-1])}]"


def array_type(array: Any, axes: int = 0) -> str:
    """Write the type and the shape of an array without its first axes, as ``uint8[28, 28]``."""
    shape = array.shape[axes:]
    return f"{array.dtype}{list(shape)}" if shape else str(array.dtype)


def named(names: Any) -> str:
    """Write names, or the first of them and how many more there are: ``a, b and 2 more``."""
    shown, more = ", ".join(map(str, names[:MOST_NAMED])), len(names) - MOST_NAMED
    return f"{shown} and {more:,} more" if more > 0 else shown


def counted(count: int, thing: str) -> str:
    """Write how many of a thing there are: ``1 round``, ``2,000 rounds``."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def span(values: Any, write: Callable[[Any], str]) -> str:
    """Write the range of some numbers, or the one number that they are."""
    low, high = write(np.min(values)), write(np.max(values))
    return low if low == high else f"{low} to {high}"


def _row(name: str, value: object) -> str:
    return f"<tr><th {LEFT}>{_text(name)}</th><td {LEFT}>{_text(value)}</td></tr>"


def _text(value: object) -> str:
    return html.escape(str(value))
