"""Kernels in their largest sizes can be compiled where the interpreter stands for a GPU."""

import pytest

from maxfl.models.gpu.trials import TRIALS

DTYPES = dict.fromkeys(TRIALS, ("float32", "bfloat16")) | {"perceptron": ("float32",)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "dtype"), [(kind, dtype) for kind, dtypes in DTYPES.items() for dtype in dtypes]
)
def test_all_kinds(kind, dtype):
    TRIALS[kind](dtype)
