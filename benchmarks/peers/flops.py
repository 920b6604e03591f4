"""Floating-point operations of a workload's matrix multiplications and convolutions, by formula."""

import math

from task import Floats, Task

SIDE = 28


def products(start: list[Floats]) -> list[int]:
    """Count multiplications of each layer for one sample; 3 × 3 convolutions are pooled 2 × 2."""
    side, found = SIDE, []
    for weight in start[::2]:
        if weight.ndim == 4:
            side -= 2
            found.append(side * side * weight.size)
            side //= 2
        else:
            found.append(weight.size)
    return found


def training(task: Task) -> int:
    """Count those of a round: forwards, gradients by weights and by all inputs but the first."""
    each = products(task.start)
    return 2 * (3 * sum(each) - each[0]) * task.batch * task.steps * task.cohort


def evaluation(task: Task) -> int:
    """Count those of one evaluation of all clients."""
    samples = len(task.train.y) + len(task.test.y)
    return 2 * sum(products(task.start)) * samples


def peak(seconds: float, side: int) -> float:
    """Return Gflop/s of a multiplication of two square matrices."""
    return 2 * math.pow(side, 3) / seconds / 1e9
