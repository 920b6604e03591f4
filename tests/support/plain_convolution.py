"""Convolution by plain loops in NumPy, written without looking at the product."""

import numpy as np


def convolved(x, weight, stride, padding):
    """Convolve by plain loops; a size that stays has zeros around, of an odd number more after."""
    kernel = weight.shape[:2]
    if padding == "same":
        margins = []
        for side, k in zip(x.shape[1:3], kernel, strict=True):
            more = max((int(np.ceil(side / stride)) - 1) * stride + k - side, 0)
            margins.append((more // 2, more - more // 2))
        x = np.pad(x, ((0, 0), *margins, (0, 0)))
    sides = [(x.shape[i + 1] - kernel[i]) // stride + 1 for i in (0, 1)]
    out = np.zeros((len(x), *sides, weight.shape[3]))
    for i in range(sides[0]):
        for j in range(sides[1]):
            top, left = i * stride, j * stride
            window = x[:, top : top + kernel[0], left : left + kernel[1]]
            out[:, i, j] = np.tensordot(window, weight, 3)
    return out
