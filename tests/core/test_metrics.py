"""Metrics of samples, worked by hand, and what becomes of their means."""

import jax.numpy as jnp
import numpy as np
import pytest

from maxfl import metrics


def of_samples(metric, outputs, y):
    return np.asarray(metric.function(jnp.asarray(outputs), jnp.asarray(y)))


def test_accuracies():
    right = of_samples(metrics.accuracy, [[1.0, 2.0], [3.0, 2.0]], [1, 1])
    np.testing.assert_array_equal(right, [1, 0])
    labels = of_samples(metrics.label_accuracy, [[1.0, -1.0, 2.0, -3.0]], [[1, 0, 0, 0]])
    np.testing.assert_array_equal(labels, [0.75])
    tokens = of_samples(
        metrics.token_accuracy(), [[[0.0, 1, 2], [0, 2, 1], [3, 1, 0]]], [[2, 2, 0]]
    )
    np.testing.assert_array_equal(tokens, [0.5])


def test_errors_and_perplexity_are_functions_of_means():
    squares = of_samples(metrics.root_squared_error, [[3.0], [0.0]], [0.0, 4.0])
    assert metrics.root_squared_error.of_mean(squares.mean()) == pytest.approx(np.sqrt(12.5))
    np.testing.assert_array_equal(of_samples(metrics.absolute_error, [[3.0]], [5.0]), [2.0])
    perplexity = metrics.perplexity()
    even = of_samples(perplexity, np.zeros((1, 2, 7)), [[3, 1]])
    assert perplexity.of_mean(even.mean()) == pytest.approx(7, rel=1e-5)


def test_directions():
    better = (metrics.accuracy, metrics.label_accuracy, metrics.token_accuracy())
    assert all(metric.higher_is_better and metric.percent for metric in better)
    worse = (metrics.absolute_error, metrics.root_squared_error, metrics.perplexity())
    assert not any(metric.higher_is_better or metric.percent for metric in worse)
