"""What to lower where memory is short, in words."""

import numpy as np
import pytest

import maxfl
from maxfl.engine.resources import explain_out_of_memory
from maxfl.utils.errors import OutOfMemoryError
from support.limits import out_of_memory
from support.small import simulate, simulation


@pytest.mark.processes
def test_too_little_memory_is_explained_with_what_was_predicted():
    words = r"out of memory \(RESOURCE_EXHAUSTED.* needs about .* 1 client at once: lower training"
    with pytest.raises(OutOfMemoryError, match=words):
        simulate(maxfl.fedavg(), progress=out_of_memory)
    many = simulation(maxfl.fedavg(), seed=[0, 1], max_parallel=2)
    words = r"2 clients at once: lower max_parallel .* below 2"
    advice = many.resources.advice
    with pytest.raises(OutOfMemoryError, match=words), explain_out_of_memory(advice):
        np.zeros(1 << 50)
