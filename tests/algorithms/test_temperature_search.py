"""The search for the temperature's rule tries the rule that is shipped."""

import runpy

import jax
import numpy as np
import pytest

import maxfl
from support.commands import ROOT


@pytest.mark.slow
def test_the_search_has_the_rule_that_is_shipped():
    """A few rounds of the benchmark's method with today's numbers are those of maxfl_auto."""
    bench = runpy.run_path(str(ROOT / "benchmarks/temperature_rule.py"))
    hparams = maxfl.maxfl_auto().hparams
    numbers = {name: getattr(hparams, name) for name in ("multiple", "quantile", "gain", "epsilon")}
    searched = bench["method"]([bench["following"](**numbers)], 5)
    training = maxfl.Training(5, 5, 3, 16, [0.1], [1.0])
    found = [
        maxfl.simulate(bench["two_opinions"](3), maxfl.mlp(()), method, training, seed=3)
        for method in (searched, maxfl.maxfl_auto())
    ]
    for a, b in zip(*(jax.tree.leaves(history.params) for history in found), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
