"""Normalisation against plain NumPy."""

import numpy as np

from maxfl.models.normalisation import Scaling, group_norm, init_scaling, layer_norm

RNG = np.random.default_rng(0)


def normalised(values):
    return (values - values.mean()) / np.sqrt(values.var() + 1e-5)


def test_groups_of_channels():
    h = RNG.normal(3, 2, size=(2, 3, 4, 6)).astype(np.float32)
    scale, shift = RNG.normal(size=(2, 6)).astype(np.float32)
    expected = np.empty_like(h)
    for n in range(2):
        for first in (0, 3):
            part = np.s_[n, :, :, first : first + 3]
            expected[part] = normalised(h[part])
    found = group_norm(Scaling(scale, shift), h, groups=2)
    np.testing.assert_allclose(found, expected * scale + shift, atol=1e-5)


def test_features_of_each_position():
    h = RNG.normal(-1, 5, size=(2, 3, 8)).astype(np.float32)
    expected = [[normalised(position) for position in sample] for sample in h]
    np.testing.assert_allclose(layer_norm(init_scaling(8), h), expected, atol=1e-5)
