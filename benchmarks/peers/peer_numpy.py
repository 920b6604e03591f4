"""A plain NumPy loop: one process a core, one BLAS thread each."""

import os

# Before NumPy loads.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
import pool
from numpy_model import Loop
from task import Outcome, Task, cores, main, timed


def run(task: Task, variant: str, device: str) -> Outcome:  # noqa: ARG001
    """Run all rounds."""
    loops = pool.Pool(task.with_scaled_inputs(), cores(), Loop)
    ms = timed(task, loops.one_round)
    return Outcome(ms, loops.params(), loops.evaluation())


if __name__ == "__main__":
    main("numpy", ("a process each core",), run, {"numpy": np.__version__})
