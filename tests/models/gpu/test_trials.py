"""Kernels in their largest sizes can be compiled where the interpreter stands for a GPU."""

import pytest

from maxfl.models.gpu import trials


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "trial", [trials.try_convolution, trials.try_group_norm, trials.try_attention]
)
def test_all_kinds(trial, dtype):
    trial(dtype)
