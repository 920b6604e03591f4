"""What a program of a kernel does."""

import contextlib

import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models.gpu.program import divide, larger, traced_for, triton, wait


@pytest.mark.parametrize("size", [1, 3])
def test_quotient_and_remainder(size):
    number = jnp.arange(7)
    quotient, rest = divide(number, size)
    np.testing.assert_array_equal(quotient, np.arange(7) // size)
    np.testing.assert_array_equal(rest, np.arange(7) % size)


def test_the_larger_of_two_keeps_nan():
    nan = jnp.nan
    a, b = jnp.asarray([1.0, 2.0, nan, 1.0, nan]), jnp.asarray([2.0, 1.0, 1.0, nan, nan])
    np.testing.assert_array_equal(larger(a, b), [2, 2, nan, nan, nan])


def test_the_interpreter_does_not_wait_for_warps(monkeypatch):
    """Nor does it stay so for what is traced afterwards, even after an error."""
    waits = []
    monkeypatch.setattr(triton, "debug_barrier", lambda: waits.append(True))
    with traced_for(interpret=True):
        wait()
        with traced_for(interpret=False):
            wait()
        assert len(waits) == 1
        wait()
    assert len(waits) == 1
    with contextlib.suppress(ZeroDivisionError), traced_for(interpret=True):
        1 / 0  # noqa: B018
    wait()
    assert len(waits) == 2
