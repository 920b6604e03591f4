"""Sizes that kernels can have."""

from maxfl.models.gpu.sizes import power_of_two


def test_sizes_are_powers_of_two_that_a_tensor_core_multiplies():
    assert [power_of_two(n) for n in (1, 16, 17, 100)] == [16, 16, 32, 128]
