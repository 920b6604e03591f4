"""A plain NumPy loop: one process a core, one BLAS thread each."""

import os

# Before NumPy loads.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402
import numpy_model  # noqa: E402
import pool  # noqa: E402
from task import Floats, Outcome, Task, cores, main, timed  # noqa: E402


class Loop:
    """One process of the loop."""

    def __init__(self, task: Task) -> None:
        self.task, self.rng = task, np.random.default_rng(os.getpid())

    def train(self, params: Floats, client: int) -> Floats:
        """Parameters after τ steps."""
        own = params.copy()
        numpy_model.train(self.task, self.rng, pool.unflat(own, self.task.start), client)
        return own

    def evaluate(self, params: Floats, split: int, rows: slice) -> tuple[Floats, Floats]:
        """Loss and correctness of samples."""
        samples = (self.task.train, self.task.test)[split]
        own = pool.unflat(params, self.task.start)
        return numpy_model.evaluate(self.task, own, samples.x[rows], samples.y[rows])


def run(task: Task, variant: str, device: str) -> Outcome:  # noqa: ARG001
    """All rounds."""
    loops = pool.Pool(task.decoded(), cores(), Loop)
    ms = timed(task, loops.one_round)
    return Outcome(ms, loops.params(), loops.seen())


if __name__ == "__main__":
    main("numpy", ("a process each core",), run, {"numpy": np.__version__})
