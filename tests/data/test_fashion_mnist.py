"""Fashion-MNIST is what its publisher says, and loads quickly."""

import subprocess
import sys

import numpy as np
import pytest

from maxfl.data.fashion_mnist import fashion_mnist, fashion_mnist_12k
from maxfl.data.registry import FASHION_MNIST
from support.data_files import need

pytestmark = pytest.mark.usefixtures("own_cache")


def test_fashion_mnist_is_what_its_publisher_says():
    need(*FASHION_MNIST.values())
    data = fashion_mnist()
    assert data.x.shape == (70_000, 28, 28)
    assert isinstance(data.x, np.memmap)
    np.testing.assert_array_equal(np.bincount(data.y), [7000] * 10)
    np.testing.assert_array_equal(np.bincount(data.y[:60_000]), [6000] * 10)
    train = data.x[:60_000] / np.float32(255)
    assert train.mean() == pytest.approx(0.2860, abs=5e-5)
    assert train.std() == pytest.approx(0.3530, abs=5e-5)
    # The first image is an ankle boot, whose sole is below: dark above, bright below.
    assert data.labels[data.y[0]] == "ankle boot"
    assert data.x[0, 20:].mean() > 5 * data.x[0, :7].mean()
    assert len(fashion_mnist("test").y) == 10_000


LOADING = """
import resource, time
from maxfl.data.fashion_mnist import fashion_mnist, fashion_mnist_12k
before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
fashion_mnist()
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(time.perf_counter() - began, grown / 1024)
"""


def test_fashion_mnist_loads_within_2_seconds_and_200_megabytes():
    need(*FASHION_MNIST.values())
    command = [sys.executable, "-c", LOADING]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, done.stdout.split())
    assert seconds < 2
    assert megabytes < 200


def test_embedded_data_are_whole_and_balanced():
    data = fashion_mnist_12k()
    assert data.x.shape == (12_000, 28, 28)
    assert data.x.dtype == np.uint8
    np.testing.assert_array_equal(np.bincount(data.y), [1200] * 10)
    pixels = (data.x.astype(np.float32) - data.input_scaling.shift) * data.input_scaling.scale
    assert abs(pixels.mean()) < 0.01
    assert pixels.std() == pytest.approx(1, abs=0.01)
