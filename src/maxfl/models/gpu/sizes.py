"""Sizes that kernels can have."""

ADDRESSES = 2**31
"""Numbers of an array that a kernel's addresses reach."""
MOST_CHANNELS = 64
"""Of an image: up to here windows in memory take longer, and kernels were measured."""
LONG_WINDOW = 256
"""Numbers of a window from which on products in half precision save the time of rounding; pooled
products of ``LEAST`` channels, of which four share it, have it always."""
LONGEST_PATCH = 64
"""Numbers of the pixels that four windows lie in: of more, a program multiplies windows."""
LARGEST_IMAGE = 32_768
"""Numbers of an image that a program of group normalisation can hold."""
WIDEST_ROW = 1024
"""Features of a position that a program of layer normalisation holds."""
MOST_LAYERS, WIDEST_LAYER, LARGEST_BATCH = 3, 64, 64
"""Layers of a perceptron, their units, and samples of a minibatch, that fit into registers."""
SAMPLES_PER_UNIT = 4
"""Samples whose steps a perceptron takes at once, for each unit of its first layer: then xxᵀ takes
twice as many operations as the two products of x that single steps have, and x four times the
memory of the weights, where it was bytes twice."""
LONGEST, MOST_FEATURES = 128, 32
"""Positions of a sequence, and features of a head, that fit into the registers of a program."""
LEAST = 16
"""Rows and columns that a tensor core multiplies."""


def power_of_two(number: int) -> int:
    """Return the next power of two, at least that of a tensor core."""
    return max(1 << (number - 1).bit_length(), LEAST)
