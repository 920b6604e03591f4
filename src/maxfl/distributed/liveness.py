"""Connections between processes that stay open, so that one that dies is missed at once.

Where a process waits for another in the middle of a program, the connections of JAX's collectives
do not always tell that the other is gone; then JAX would end all after a timeout, with a message
that does not say what to do. These connections carry nothing but a goodbye: whoever hangs up
without it is lost.
"""

import atexit
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

TIMEOUT = 60.0
"""Seconds to wait for processes that have not come yet, or are silent."""
GOODBYE = b"\n"
GRACE = 2.0
"""Seconds in which the work may find out by itself, and end in order."""


def watch_peers(peers: Sequence[socket.socket], message: Callable[[], str]) -> None:
    """Watch the connections to other processes until this one ends.

    Args:
        peers: The connections.
        message: Says what to do when another process is gone.
    """
    for peer in peers:
        peer.settimeout(None)
    threading.Thread(target=_watch, args=(list(peers), message), daemon=True).start()
    atexit.register(_leave, peers)


def _leave(peers: Sequence[socket.socket]) -> None:
    """Say goodbye, unless an error ends this process, and hang up."""
    in_order = getattr(sys, "last_value", None) is None
    for peer in peers:
        with suppress(OSError):
            if in_order:
                peer.sendall(GOODBYE)
            peer.shutdown(socket.SHUT_WR)


def _watch(peers: list[socket.socket], message: Callable[[], str]) -> None:
    while peers:
        ready, _, _ = select.select(peers, [], [])
        for peer in ready:
            received = b""
            with suppress(OSError):
                received = peer.recv(len(GOODBYE))
            if not received:
                _end(message())
            peers.remove(peer)


def _end(message: str) -> None:
    """End this process: the work may be inside a program, where nothing else can end it."""
    time.sleep(GRACE)
    sys.stderr.write(f"Error: {message}\n")
    sys.stderr.flush()
    os._exit(2)
