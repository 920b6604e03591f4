"""Sizes that kernels can have."""

ADDRESSES = 2**31
"""Numbers of an array that a kernel's addresses reach."""


def power_of_two(number: int) -> int:
    """Return the next power of two, at least the 16 that a tensor core multiplies."""
    return max(1 << (number - 1).bit_length(), 16)
