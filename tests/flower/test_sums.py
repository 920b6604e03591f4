"""What a round adds up to: aggregators as in the simulation, counts from sums."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.core import aggregators
from maxfl.flower import MaxFL
from maxfl.flower.sums import RoundSums, estimate_counts, sum_gaps
from support.flower_nodes import START, Nodes, make_app, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def test_clipping_and_aggregators_are_the_simulations():
    apps = [make_app(1.0, 2.0, c) for c in (0.1, 0.2, 50.0)]
    ((model, _),) = train(
        MaxFL(aggregator=aggregators.median(), epsilon=0, max_update_norm=1e6), Nodes(*apps)
    )
    np.testing.assert_allclose(model["w"], START["w"] - 0.2, rtol=1e-6)
    ((model, _),) = train(
        MaxFL(aggregator=aggregators.mean(clip_norm=0.2), epsilon=0), Nodes(*apps[2:], apps[2])
    )
    np.testing.assert_allclose(START["w"] - model["w"], 0.1, rtol=1e-5)  # 0.2 / √4 each


def test_one_gap_does_not_set_where_the_temperature_begins():
    assert sum_gaps([0.5, 2.0]) == 2.5
    assert sum_gaps([0.5, 1.0, 1e18]) == 11.5  # ten times the median, 1
    assert sum_gaps([0.5, 1e30]) == 5.5
    assert sum_gaps([0.0, 0.0, 0.5]) == 0.5  # who is on its requirement tells nothing of the others
    assert sum_gaps([]) == sum_gaps([0.0]) == 0
    strategy = MaxFL()
    train(strategy, Nodes(*[make_app(1.0, 2.0)] * 3, make_app(1.0, 2.0, maxfl_gap=1e18)), rounds=2)
    assert strategy.rounds[1].solver.scale == (3 * 1 + 10) / 4


def test_estimates_can_be_counts():
    for satisfied, declined, responded, expected in (
        (-3.0, 4.4, 10.2, (10, 6, 0, 4, 0, 0)), (99.0, -1.0, 99.0, (10, 10, 10, 0, 0, 0)),
        (5.0, 40.0, 7.9, (10, 0, 0, 8, 2, 0)), (3.0, 0.0, -2.0, (10, 0, 0, 0, 10, 0)),
    ):  # fmt: skip
        assert estimate_counts(10, RoundSums({}, 0.0, satisfied, declined, responded)) == expected
