"""Connections between processes that stay open, so that one that dies is missed at once.

Where a process waits for another in the middle of a program, the connections of JAX's collectives
do not always tell that the other is gone; then JAX would end all after a timeout, with words of its
own. These connections carry nothing but a word of farewell: whoever hangs up without it is lost.
"""

import atexit
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from maxfl.distributed.processes import gone

FAREWELL = b"\n"
GRACE = 2.0
"""Seconds in which the work may find out by itself, and end in order."""


def keep(lines: Sequence[socket.socket]) -> None:
    """Watch lines to other processes until this one ends."""
    for line in lines:
        line.settimeout(None)
    threading.Thread(target=_watch, args=(list(lines),), daemon=True).start()
    atexit.register(_leave, lines)


def _leave(lines: Sequence[socket.socket]) -> None:
    """Say farewell, unless an error ends this process, and hang up."""
    in_order = getattr(sys, "last_value", None) is None
    for line in lines:
        with suppress(OSError):
            if in_order:
                line.sendall(FAREWELL)
            line.shutdown(socket.SHUT_WR)


def _watch(lines: list[socket.socket]) -> None:
    while lines:
        ready, _, _ = select.select(lines, [], [])
        for line in ready:
            word = b""
            with suppress(OSError):
                word = line.recv(len(FAREWELL))
            if not word:
                _end()
            lines.remove(line)


def _end() -> None:
    """The work may be in the middle of a program, where nothing else can end it."""
    time.sleep(GRACE)
    sys.stderr.write(f"Error: {gone()}\n")
    sys.stderr.flush()
    os._exit(2)
