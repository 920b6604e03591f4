"""Random numbers that nobody can predict, for noise and for who is drawn.

NumPy's generators are made for simulations: some of their numbers give away the others, and who
knew the noise could take it away. Here bits are ChaCha20's, under a fresh key of the operating
system for every array, and Box and Muller's transform makes normal numbers of them: z = √(−2 ln u)
· (cos 2πv, sin 2πv), with u, v uniform in (0, 1] by steps of 2⁻⁵³. No |z| is above 8.6; an exact
one would be with probability 10⁻¹⁷. One ARM core makes 10 to 17 million numbers a second, 80 to
140 MB/s: 10⁸ parameters take some ten seconds.
"""

import os
from random import SystemRandom
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

KEY_BYTES, NONCE_BYTES = 32, 16
CHUNK = 2**13
"""Pairs of numbers that are made at a time: they fit into a core's cache."""


class Randomness(Protocol):
    """What noise and sampling need of a generator: NumPy's, from a seed, will do for tests."""

    def random(self) -> float:
        """Draw a number uniformly from [0, 1)."""

    def normal(self, loc: float, scale: float, size: tuple[int, ...]) -> NDArray[np.float64]:
        """Draw normal numbers."""


class SecureGenerator:
    """A cryptographic generator; it has no seed and no state."""

    def random(self) -> float:
        """Draw a number uniformly from [0, 1)."""
        return SystemRandom().random()

    def normal(self, loc: float, scale: float, size: tuple[int, ...]) -> NDArray[np.float64]:
        """Draw normal numbers with a mean and a standard deviation, of a shape."""
        count = int(np.prod(size, dtype=np.int64))
        # A key for each call: a stream has 256 GiB, and none goes on from one round to the next.
        stream = Cipher(algorithms.ChaCha20(os.urandom(KEY_BYTES), bytes(NONCE_BYTES)), None)
        bits = stream.encryptor()
        numbers = np.empty(count + count % 2)
        for start in range(0, len(numbers), 2 * CHUNK):
            part = numbers[start : start + 2 * CHUNK]
            part[:] = loc + scale * _box_muller(_uniform(bits, len(part)))
        return numbers[:count].reshape(size)


def _uniform(bits: Any, count: int) -> NDArray[np.float64]:
    """Return numbers from (0, 1], of the upper 53 bits of every 64."""
    words = np.frombuffer(bits.update(bytes(8 * count)), np.uint64)
    return np.ldexp((words >> np.uint64(11)) + np.uint64(1), -53, dtype=np.float64)


def _box_muller(uniform: NDArray[np.float64]) -> NDArray[np.float64]:
    u, v = np.split(uniform, 2)
    radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
