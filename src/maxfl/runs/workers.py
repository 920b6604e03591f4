"""The groups of a sweep, one after another or several at once."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from itertools import zip_longest
from threading import Event
from typing import Any

import jax

from maxfl.distributed.processes import free_bytes
from maxfl.engine.memory.footprint import ROOM
from maxfl.engine.trainer import Progress


def run_queues(
    run_one: Callable[[int], None],
    compiling: Callable[[int], AbstractContextManager[Any]],
    queues: Sequence[Sequence[int]],
    stop: Event,
    largest: int,
) -> None:
    """Run every queue of groups, many at once on one accelerator, else one after another.

    An accelerator does one thing at a time too, but meanwhile the host compiles the other queues'
    programs and writes results. Only as many run at once as fit into its memory, if each needs
    ``largest`` bytes. Where queues run one after another, ``compiling(g)`` is held open during the
    one before that of group g: training leaves a core idle now and then.
    """

    def work(queue: Sequence[int]) -> None:
        for g in queue:
            run_one(g)

    fitting = int(ROOM * free_bytes(jax.devices()[0]) // largest)
    # Several devices add up over each other: two programs at once could wait for one another.
    if jax.default_backend() == "cpu" or len(jax.devices()) > 1:
        for queue, following in zip_longest(queues, queues[1:]):
            with compiling(following[0]) if following and fitting > 1 else nullcontext():
                work(queue)
        return
    workers = max(1, min(len(queues), os.cpu_count() or 1, fitting))
    with ThreadPoolExecutor(workers) as pool:
        waiting = [pool.submit(work, queue) for queue in queues]
        try:
            for done in as_completed(waiting):
                done.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


class StoppedError(Exception):
    """Ends a group because another one failed, or somebody pressed Ctrl-C."""


def stoppable(report: Progress | None, stop: Event) -> Progress:
    """Return a progress callback that ends its run once the others have stopped."""

    def progress(stage: str, done: int, total: int) -> None:
        if stop.is_set():
            raise StoppedError
        if report:
            report(stage, done, total)

    return progress
