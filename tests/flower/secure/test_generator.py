"""Noise that nobody can predict: it is normal, of any shape, and never the same."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.flower.secure.generator import CHUNK, SecureGenerator, _box_muller, _uniform

pytestmark = pytest.mark.extras


class Stream:
    """Bits that are known: the same word again and again."""

    def __init__(self, word):
        self.word = word

    def update(self, zeros):
        return np.full(len(zeros) // 8, self.word, np.uint64).tobytes()


def test_numbers_by_hand():
    """The least word is u = 2⁻⁵³ and the largest is 1, of which ln is 0: none is infinite."""
    assert _uniform(Stream(0), 2).tolist() == [2.0**-53] * 2
    assert _uniform(Stream(2**64 - 1), 2).tolist() == [1.0, 1.0]
    # u = e⁻² gives √4 = 2; v = 1/6 is an angle of 60°.
    pair = _box_muller(np.array([np.exp(-2), 1 / 6]))
    np.testing.assert_allclose(pair, [1.0, np.sqrt(3)], rtol=1e-12)
    assert _box_muller(np.array([2.0**-53, 1.0]))[0] == pytest.approx(8.57, abs=0.01)


def test_it_is_normal():
    from scipy.stats import kstest

    numbers = SecureGenerator().normal(3.0, 2.0, (5 * CHUNK + 3,))
    assert len(numbers) == 5 * CHUNK + 3
    assert kstest((numbers - 3) / 2, "norm").pvalue > 1e-6
    # Neither pairs nor parts go together.
    whole = numbers[: 4 * CHUNK] - 3
    assert abs(np.corrcoef(whole[: 2 * CHUNK], whole[2 * CHUNK :])[0, 1]) < 0.03
    assert abs(np.corrcoef(whole[:CHUNK] ** 2, whole[CHUNK : 2 * CHUNK] ** 2)[0, 1]) < 0.04


def test_shapes_and_draws():
    draws = SecureGenerator()
    assert draws.normal(0.0, 1.0, (3, 1)).shape == (3, 1)
    assert draws.normal(0.0, 1.0, ()).shape == ()
    assert draws.normal(0.0, 1.0, (0, 4)).shape == (0, 4)
    assert not np.array_equal(draws.normal(0.0, 1.0, (9,)), draws.normal(0.0, 1.0, (9,)))
    uniform = [draws.random() for _ in range(2000)]
    assert np.mean(uniform) == pytest.approx(0.5, abs=0.05)
    assert min(uniform) >= 0
    assert max(uniform) < 1
