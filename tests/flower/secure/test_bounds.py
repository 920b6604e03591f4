"""Bounds that honest secure sums keep, by hand: four clients that clip to C = 2."""

import math

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.flower import Privacy
from maxfl.flower.privacy import add_noise
from maxfl.flower.secure.bounds import SURE, bound_step, most_drawn, slack_of, wrong_sums
from maxfl.flower.sums import RoundSums

pytestmark = pytest.mark.extras

PRIVACY = Privacy(clip=2.0, secure=True)
LEVELS = 2**20
STEP = 2 * (2.0 / 4) / LEVELS
"""What rounding changes in a number of one client: the span is C/4 = ½ to both sides."""
UPDATE = {"w": np.array([1.2, 0.0]), "b": np.array([[1.6]])}
"""Norm 2."""
FULL = RoundSums(UPDATE, 1.0, satisfied=3.0, declined=1.0, responded=4.0, near=4.0, gaps=400.0)
"""As much as four clients can add: weights of ¼, updates of norm C, gaps of 100."""


def wrong(clients=4, **changes):
    return wrong_sums(PRIVACY, FULL._replace(**changes), clients, LEVELS)


def test_honest_sums_keep_all_bounds():
    assert wrong() == ""
    zero = {name: 0.0 * array for name, array in UPDATE.items()}
    assert wrong_sums(PRIVACY, RoundSums(zero, 0.0, 0.0, 0.0, 0.0), 4, LEVELS) == ""


def test_what_rounding_adds_by_hand():
    """Four clients, each of whose numbers is rounded by less than a step; a bit is a quarter."""
    slack = slack_of(PRIVACY, FULL, 4, LEVELS)
    assert slack == pytest.approx((4 * STEP * math.sqrt(3), 4 * STEP, 16 * STEP))
    near_slack = 0.99
    weight, bit = near_slack * 4 * STEP, near_slack * 16 * STEP
    longer = {n: u + near_slack * 4 * STEP * np.sign(u) for n, u in UPDATE.items()}
    assert wrong(update=longer, weight=1.0 - weight) == ""
    assert wrong(weight=1.0 + weight) == ""
    assert wrong(update={"w": np.zeros(3)}, weight=-weight) == ""
    assert wrong(satisfied=3.0 + bit, declined=1.0 + bit, responded=4.0 - bit) == ""
    assert wrong(responded=4.0 + bit) == ""
    assert wrong(near=4.0 + bit, responded=4.0 - bit) == ""
    assert wrong(gaps=400.0 + 100 * bit) == ""
    assert wrong(satisfied=-bit, near=-bit, gaps=-100 * bit) == ""


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({"weight": -0.09999}, "Σ q ≤ n/4"),  # with ε = 0.1, a step of thousands
        ({"weight": 1.001}, "Σ q ≤ n/4"),
        ({"weight": math.nan}, "Σ q ≤ n/4"),
        ({"weight": math.inf}, "Σ q ≤ n/4"),
        ({"weight": 0.99}, "‖Σ q Δ‖ ≤ C Σ q"),
        ({"update": {"w": np.array([2.01])}}, "‖Σ q Δ‖ ≤ C Σ q"),
        ({"update": {"w": np.array([np.nan])}}, "‖Σ q Δ‖ ≤ C Σ q"),
        ({"responded": 4.001}, "responded ≤ n"),
        ({"satisfied": -0.001}, "0 ≤ satisfied + declined"),
        ({"declined": -0.001}, "0 ≤ satisfied + declined"),
        ({"satisfied": 3.001}, "satisfied + declined ≤ responded"),
        ({"declined": math.nan}, "satisfied + declined ≤ responded"),
        ({"near": 4.001}, "near ≤ responded"),
        ({"near": -0.001}, "0 ≤ near"),
        ({"gaps": 400.1}, "Σ gaps ≤ G n"),
        ({"gaps": -0.1}, "0 ≤ Σ gaps"),
    ],
)
def test_each_bound_is_held(changes, bound):
    problem = wrong(**changes)
    assert bound in problem
    assert problem.startswith("the secure sums break")


def test_fewer_clients_have_smaller_sums():
    assert wrong(clients=3)


def test_nobody_is_asked_where_the_temperature_is_fixed():
    assert wrong(near=None, gaps=None) == ""


NOISY = PRIVACY._replace(noise_multiplier=1.5)


def test_noise_has_room_and_no_more():
    """S = √5 with a count of near ones: σ is 1.5·√5 of (C/4, ¼, 1), up to rounding."""
    sums, sigma = FULL._replace(gaps=None), 1.5 * math.sqrt(5)
    slack = slack_of(NOISY, sums, 4, LEVELS)
    assert slack.number == pytest.approx(6 * sigma, rel=1e-4)
    assert slack.weight == pytest.approx(6 * sigma / 4, rel=1e-4)
    assert slack.update == pytest.approx(sigma * 2 / 4 * (math.sqrt(3) + 6), rel=1e-4)
    for far, is_wrong in ((0.999, False), (1.001, True)):
        assert bool(wrong_sums(NOISY, sums._replace(weight=1 + far * slack.weight), 4, LEVELS)) == (
            is_wrong
        )
        most = sums._replace(responded=4 + far * slack.number)
        assert bool(wrong_sums(NOISY, most, 4, LEVELS)) == is_wrong


def test_honest_noisy_sums_pass():
    rng, sums = np.random.default_rng(0), FULL._replace(gaps=None)
    for _ in range(300):
        assert wrong_sums(NOISY, add_noise(NOISY, sums, LEVELS, rng), 4, LEVELS) == ""


def test_how_many_are_drawn_at_most():
    assert most_drawn(0) == 2 * SURE
    assert most_drawn(100) == 100 + 6 * 10 + 12
    from scipy.stats import binom

    for nodes, probability in ((20, 0.1), (1000, 0.1), (1000, 0.9), (10**6, 0.01)):
        expected = round(nodes * probability)
        assert binom.sf(most_drawn(expected), nodes, probability) < 1e-7


def test_sums_are_shortened_by_hand():
    """ε = 0.1 and Σ q = 0.4: no longer than 2·0.5 = 1, which halves a norm of 2."""
    sums = FULL._replace(weight=0.4)
    short = bound_step(PRIVACY, 0.1, sums)
    np.testing.assert_allclose(short.update["w"], [0.6, 0.0], rtol=1e-12)
    np.testing.assert_allclose(short.update["b"], [[0.8]], rtol=1e-12)
    assert short._replace(update=UPDATE) == sums
    assert bound_step(PRIVACY, 0.1, FULL) is FULL
    nothing = bound_step(PRIVACY, 0.1, FULL._replace(weight=-3.0))
    assert all(not array.any() for array in nothing.update.values())
