"""Kernels in their largest sizes can be compiled where the interpreter stands for a GPU."""

import pytest

from maxfl.models.gpu.trials import TRIALS


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", TRIALS)
def test_all_kinds(kind, dtype):
    TRIALS[kind](dtype)
