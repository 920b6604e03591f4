"""Whether two histories are the same."""

import jax
import numpy as np


def assert_same(one, other, tolerance, configuration=slice(None)):
    """Compare one history's configurations with another: draws exactly, numbers to a tolerance."""
    parts = jax.tree.map(lambda a: a[configuration], (one.evaluation, one.solo, one.params))
    theirs = (other.evaluation, other.solo, other.params)
    for a, b in zip(jax.tree.leaves(parts), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    for name in ("client_id", "participated"):
        ours = getattr(one.cohorts, name)[configuration]
        np.testing.assert_array_equal(ours, getattr(other.cohorts, name))
