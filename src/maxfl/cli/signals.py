"""Ctrl-C and SIGTERM: the end at once while nothing is at stake, else an exception to tidy up by.

It knows nothing heavy, as it must be there first.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

WORDS = {
    signal.SIGINT: "Interrupted",
    signal.SIGTERM: "Terminated",
    signal.SIGHUP: "Terminal closed",
}
AGAIN = 0.05
"""Seconds after which a signal is sent again that came where Python can't raise."""


class Interrupted(KeyboardInterrupt):
    """A signal asked the process to end: Ctrl-C, a scheduler's, or that of a closed terminal."""

    def __init__(self, number: int) -> None:
        self.number = signal.Signals(number)

    @property
    def exit_code(self) -> int:
        """What shells expect of a process that a signal ended."""
        return 128 + self.number

    def __str__(self) -> str:
        return WORDS[self.number]


def end_at_once() -> None:
    """Let signals end the process in one line: imports that are cut off would end in many."""
    _listen(_leave)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let signals raise ``Interrupted``, so that work ends in good order."""
    before = _listen(_interrupt)
    hook, sys.unraisablehook = sys.unraisablehook, _send_again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen(handler: Any) -> dict[signal.Signals, Any]:
    """Handle the signals that are not ignored; return what handled them before."""
    if threading.current_thread() is not threading.main_thread():  # Python allows no handler there
        return {}
    before = {number: signal.getsignal(number) for number in WORDS}
    heard = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    for number in heard:
        signal.signal(number, handler)
    return heard


def _leave(number: int, _: Any) -> NoReturn:
    sys.stderr.write(f"{WORDS[signal.Signals(number)]}.\n")
    sys.stderr.flush()
    os._exit(128 + number)


def _interrupt(number: int, _: Any) -> NoReturn:
    raise Interrupted(number)


def _send_again(lost: "sys.UnraisableHookArgs") -> None:
    """Send a signal again that came in a callback, of the garbage collector say, and was lost."""
    if isinstance(lost.exc_value, Interrupted):
        threading.Timer(AGAIN, os.kill, (os.getpid(), lost.exc_value.number)).start()
    else:
        sys.__unraisablehook__(lost)
