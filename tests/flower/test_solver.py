"""The solver at the server: worked by hand, and beside the simulation's."""

import math

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

import maxfl
from maxfl.core import appeal
from maxfl.flower import MaxFL
from maxfl.flower.round_log import Solver
from maxfl.flower.solver import server_rate, state_from_plain, state_to_plain
from maxfl.utils.errors import InputError
from support.flower_nodes import START, Nodes, make_app, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


@pytest.mark.parametrize("given", [None, 0.8])
def test_rounds_worked_by_hand(given):
    """Gaps 0.5 and 2, of which one is near; c = 1.5, p = 0.35, γ = 0.3, ε = 0.1, η_g to 0.18."""
    nodes = Nodes(make_app(1.5, 1.0, 0.5), make_app(3.0, 1.0, -1.0))
    strategy = MaxFL(scale=given)
    results = train(strategy, nodes, rounds=3)
    follow = math.exp(0.3 * (0.35 - 0.5))
    mean = (0.5 + 2) / 2
    scales = [0, mean, mean * follow] if given is None else [0.8, 0.8 * follow, 0.8 * follow**2]
    assert [entry.solver.scale for entry in strategy.rounds] == pytest.approx(scales)
    temperatures = [1.5 * s if s else math.inf for s in scales]
    assert [entry.solver.temperature for entry in strategy.rounds] == pytest.approx(temperatures)
    before = START["w"]
    for rate, t, (after, _) in zip((1.0, 0.18**0.5, 0.18), temperatures, results, strict=True):
        q = [appeal.weight(1.5, 1.0, t), appeal.weight(3.0, 1.0, t)]
        step = (q[0] * 0.5 - q[1] * 1.0) / (sum(q) + 0.1)
        np.testing.assert_allclose(before - after["w"], rate * step, rtol=1e-3)
        before = after["w"]


def test_where_no_weight_is_left_the_scale_rises_until_there_is_one():
    """Gaps of 2 at T = 0.0015, where q underflows; nobody is near, so s rises by γp in each."""
    strategy = MaxFL(scale=0.001)
    train(strategy, Nodes(*[make_app(4.0, 2.0)] * 2), rounds=3)
    follow = math.exp(0.3 * 0.35)
    assert [entry.no_step for entry in strategy.rounds] == ["no reply has a weight"] * 3
    scales = [0.001 * follow**t for t in range(3)]
    assert [entry.solver.scale for entry in strategy.rounds] == pytest.approx(scales)


def test_who_is_on_its_requirement_moves_the_scale_neither_way():
    strategy = MaxFL(scale=0.8)
    train(strategy, Nodes(*[make_app(1.0, 1.0)] * 2), rounds=3)
    assert [entry.solver.scale for entry in strategy.rounds] == pytest.approx([0.8] * 3)


def test_where_too_few_reply_the_solver_stays():
    strategy = MaxFL(min_replies=2)
    train(strategy, Nodes(make_app(1.0, 2.0), None), rounds=3)
    assert [entry.solver for entry in strategy.rounds] == [Solver(math.inf, 0.0)] * 3


@pytest.mark.parametrize("options", [{"temperature": 0.5}, {"observe_only": True}])
def test_a_fixed_temperature_follows_nothing(options):
    strategy = MaxFL(**options)
    train(strategy, Nodes(*[make_app(1.0, 2.0)] * 2), rounds=2)
    assert not any(entry.solver.follows_gaps for entry in strategy.rounds)
    assert strategy.rounds[1].solver.temperature == options.get("temperature", 1.0)


def test_rates_shrink_over_the_planned_rounds():
    config = MaxFL(server_lr=2.0)._config
    assert [server_rate(config, number, 3) for number in (1, 2, 3)] == pytest.approx(
        [2.0, 2.0 * 0.18**0.5, 2.0 * 0.18]
    )
    own = MaxFL(server_schedule=maxfl.schedules.linear(0.5, rounds=2))._config
    assert [server_rate(own, number, None) for number in (1, 2, 9)] == [1.0, 0.5, 0.5]
    with pytest.raises(InputError, match=r"their number is not known: run through start\(\)"):
        server_rate(config, 1, None)
    assert server_rate(MaxFL(temperature=1.0)._config, 1, None) == 1.0


def test_the_state_survives_json_to_the_last_bit():
    strategy = MaxFL()
    train(strategy, Nodes(make_app(1.9, 2.0), make_app(1.0, 2.0), make_app(1.8, 2.0)), rounds=3)
    state = strategy._solver
    again = state_from_plain(state_to_plain(state))
    assert [np.asarray(x).tobytes() for x in again] == [np.asarray(x).tobytes() for x in state]
    assert state_from_plain(state_to_plain(None)) is None
