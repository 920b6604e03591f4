"""Synthetic data: clients differ as its two numbers say."""

import numpy as np
import pytest

from maxfl.data.synthetic import synthetic

pytestmark = pytest.mark.usefixtures("own_cache")


def test_synthetic_clients_differ_as_asked():
    def spread(alpha, beta):
        data = synthetic(200, alpha, beta, np.random.default_rng(0))
        sizes = np.bincount(data.owner)
        means = np.add.reduceat(data.x, np.cumsum(sizes) - sizes) / sizes[:, None]
        return data, sizes, means.mean(1).std()

    data, sizes, even = spread(0.0, 0.0)
    assert data.title == "Synthetic(0, 0)"
    assert sizes.min() >= 50
    assert sizes.max() > 5 * np.median(sizes)
    # Means over 60 features: deviation 1/√60 from v_k alone, and β more with B_k.
    assert even == pytest.approx(1 / np.sqrt(60), rel=0.2)
    assert spread(0.0, 1.0)[2] == pytest.approx(np.sqrt(1 + 1 / 60), rel=0.2)
    variances = data.x[data.owner == sizes.argmax()].var(0)
    np.testing.assert_allclose(variances[[0, 9]], [1, 10**-1.2], rtol=0.15)
    again, _, _ = spread(0.0, 0.0)
    np.testing.assert_array_equal(data.x, again.x)
