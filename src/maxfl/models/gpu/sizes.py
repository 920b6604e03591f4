"""Sizes that kernels can have."""

ADDRESSES = 2**31
"""Numbers of an array that a kernel's addresses reach."""
MOST_CHANNELS = 64
"""Of an image: up to here windows in memory take longer, and kernels were measured."""
LARGEST_IMAGE = 32_768
"""Numbers of an image that a program of group normalisation can hold."""
WIDEST_ROW = 1024
"""Features of a position that a program of layer normalisation holds."""
WIDEST_LAYER, LARGEST_BATCH = 64, 64
"""Units of a perceptron's layers, and samples of a minibatch, that fit into registers."""
MOST_SAMPLES = 256
"""Of minibatches whose steps a perceptron takes at once: more have a larger Gram matrix."""
LONGEST, MOST_FEATURES = 128, 32
"""Positions of a sequence, and features of a head, that fit into the registers of a program."""
LEAST = 16
"""Rows and columns that a tensor core multiplies."""


def power_of_two(number: int) -> int:
    """Return the next power of two, at least that of a tensor core."""
    return max(1 << (number - 1).bit_length(), LEAST)
