"""Noise on sums, and what is guaranteed of it."""

import json
import math

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import ConfigRecord

from maxfl.core import appeal
from maxfl.flower import MaxFL, Privacy
from maxfl.flower.privacy import (
    add_noise,
    epsilon,
    poisson_sample,
    rounding_error,
    sensitivity,
)
from maxfl.flower.sums import SCALARS, Counts, RoundSums, estimate_near
from support.flower_nodes import START, Nodes, arrays, make_app, train
from support.flower_runs import federation, run
from support.flower_secure import SECURE

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


COUNTED, FIXED = (RoundSums({}, 0.0, 0.0, 0.0, 0.0, near) for near in (0.0, None))
"""Sums of a federation whose temperature follows the gaps, and of one whose does not."""


@pytest.mark.parametrize("sums", [COUNTED, FIXED])
def test_noise_has_the_standard_deviation_that_the_accountant_assumes(sums):
    privacy = Privacy(clip=2.0, noise_multiplier=1.5)
    rng = np.random.default_rng(0)
    zero = sums._replace(update={"w": np.zeros(20_000, np.float32)})
    noisy = [add_noise(privacy, zero, 0, rng) for _ in range(400)]
    unit = 1.5 * sensitivity(sums)
    assert np.std(noisy[0].update["w"]) == pytest.approx(unit * 2.0 / 4, rel=0.03)
    scales = {"weight": 1 / 4, "satisfied": 1, "declined": 1, "responded": 1}
    if sums.near is None:
        assert all(one.near is None for one in noisy)
    else:
        scales["near"] = 1
    for name, scale in scales.items():
        std = np.std([getattr(sums, name) for sums in noisy])
        assert std == pytest.approx(unit * scale, rel=0.15)


@pytest.mark.parametrize("near", [0, 1])
def test_no_client_adds_more_than_the_sensitivity(near):
    """Update, weight, and the bits satisfied, declined, here and near, in units of the noise."""
    rng = np.random.default_rng(1)
    most = sensitivity(COUNTED if near else FIXED)
    for _ in range(200):
        clip, q = rng.uniform(0.1, 5), rng.uniform(0, 0.25)
        update = rng.normal(size=6)
        update *= min(1.0, clip / np.linalg.norm(update))
        participated = np.concatenate([4 / clip * q * update, [4 * q, 1, 0, 1, near]])
        assert np.linalg.norm(participated) <= most + 1e-12
    declined = np.array([0, 0, 0, 1, 1, 0])
    assert np.linalg.norm(declined) <= most
    longest = np.linalg.norm([4 / 1.0 * 0.25 * 1.0, 4 * 0.25, 1, 0, 1, near])
    assert longest == pytest.approx(most)
    assert most == (math.sqrt(5) if near else 2)


def test_what_a_secure_client_sends_is_no_longer_than_that():
    """The very vector of the mod, where it is as long as can be: update, weight and all bits."""
    from flwr.app import MetricRecord

    from maxfl.flower import keys
    from maxfl.flower.secagg_mod import _participant_term

    metrics = MetricRecord({keys.WEIGHT: 0.25, keys.SATISFIED: 1, keys.NEAR: 1})
    before, after = {"w": np.zeros(3)}, {"w": np.full(3, 9.0)}
    update, scalars = _participant_term(before, after, metrics, clip=2.0)
    term = np.concatenate([update / (2.0 / 4), scalars / (1 / 4)])
    assert np.linalg.norm(term) == pytest.approx(sensitivity(COUNTED))
    assert len(scalars) == SCALARS


def test_the_scale_follows_a_noisy_count_without_a_bias():
    """A quarter of 40 clients is near: in many draws of noise, s neither rises nor falls."""
    privacy, rng = Privacy(clip=1.0, noise_multiplier=2.0), np.random.default_rng(0)
    sums = COUNTED._replace(near=10.0, responded=40.0)
    found = [estimate_near(add_noise(privacy, sums, 0, rng).near, 40) for _ in range(4000)]
    assert np.mean(found) == pytest.approx(10, abs=0.3)
    assert (estimate_near(1e9, 40), estimate_near(-1e9, 40)) == (80, -40)


def test_epsilon_is_that_of_the_gaussian_mechanism():
    """Balle and Wang, ICML 2018: δ(ε) of one release, solved here by bisection."""
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    from scipy.stats import norm

    def delta(eps, z):
        return norm.cdf(0.5 / z - eps * z) - math.exp(eps) * norm.cdf(-0.5 / z - eps * z)

    low, high = 0.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle, 2.0) > 1e-5 else (low, middle)
    privacy = Privacy(clip=1.0, noise_multiplier=2.0)
    assert epsilon(privacy, 1.0, 1) == pytest.approx(high, rel=1e-3)
    # R releases of one mechanism are one with noise z/√R.
    assert epsilon(privacy._replace(noise_multiplier=4.0), 1.0, 4) == pytest.approx(high, rel=1e-3)
    assert epsilon(privacy, 0.1, 1) < high
    assert epsilon(privacy, 1.0, 0) == 0
    assert epsilon(Privacy(clip=1.0, noise_multiplier=1.0), 0.25, 20) == pytest.approx(
        8.1, abs=0.05
    ), "docs/flower.md says so"
    assert epsilon(SECURE, 1.0, 3) is None


def test_private_training_steps_along_noisy_sums():
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    privacy = Privacy(clip=2.0, noise_multiplier=0.01)
    nodes = Nodes(*[make_app(1.0, 2.0, 0.25) for _ in range(40)])
    strategy = MaxFL(privacy=privacy, scale=0.5, fraction_evaluate=0.0, decline_after=1)
    results = train(strategy, nodes, rounds=2)
    step = START["w"] - results[0][0]["w"]
    q = 40 * appeal.weight(1.0, 2.0, 0.75)
    np.testing.assert_allclose(step, 0.25 * q / (q + 0.1), atol=0.02)
    assert np.ptp(step) > 0, "there is noise"
    # Nobody is near, and s rises; but for the noise on how many are.
    scale = strategy.rounds[1].solver.scale
    assert scale == pytest.approx(0.5 * math.exp(0.3 * 0.35), rel=0.01)
    assert strategy.rounds[1].counts == Counts(40, 40, 40, 0, 0, 0)
    assert [a.dtype for a in results[0][0].values()] == [np.float32] * 2
    assert strategy.privacy_guarantee()["epsilon"] > 0


def test_without_signal_there_is_no_step():
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    privacy = Privacy(clip=2.0, noise_multiplier=50.0)
    strategy = MaxFL(privacy=privacy, scale=0.5, fraction_evaluate=0.0)
    strategy.rng = np.random.default_rng(3)
    ((model, metrics),) = train(strategy, Nodes(*[make_app(1.0, 2.0) for _ in range(3)]))
    np.testing.assert_array_equal(model["w"], START["w"])
    assert 0 <= metrics["participated"] <= 3


def test_nodes_are_drawn_one_by_one():
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    rng = np.random.default_rng(0)
    sizes = [len(poisson_sample(list(range(100)), 0.3, rng)) for _ in range(300)]
    assert np.mean(sizes) == pytest.approx(30, abs=1)
    assert np.var(sizes) == pytest.approx(21, rel=0.3)
    privacy = Privacy(clip=1.0, noise_multiplier=1.0)
    strategy = MaxFL(privacy=privacy, temperature=1.0, fraction_evaluate=0.0, fraction_train=0.0001)
    nodes = Nodes(*[make_app(1.0, 2.0) for _ in range(3)])
    assert strategy.configure_train(1, arrays(START), ConfigRecord(), nodes) == []


def test_who_was_drawn_is_not_told():
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    privacy = Privacy(clip=1.0, noise_multiplier=1e-6)
    strategy = MaxFL(
        privacy=privacy, scale=0.5, fraction_evaluate=0.0, fraction_train=0.5, decline_after=0
    )
    apps = [make_app(1.0, 2.0), make_app(3.0, 2.0), make_app(1.0, 2.0, math.nan), None]
    train(strategy, Nodes(*apps), rounds=8)
    for entry in strategy.rounds:
        counts = entry.counts
        assert entry.events == []
        assert (counts.sampled, counts.failed, counts.rejected) == (2, 0, 0)


def test_rounding_is_counted_into_the_noise():
    """Secure sums are of whole numbers: a client's term can be that much longer."""
    plain, secure = (Privacy(clip=1.0, noise_multiplier=1.0, secure=s) for s in (False, True))
    assert rounding_error(plain, 10**6, 2**22) == 0
    assert rounding_error(secure, 10**6, 2**22) == pytest.approx(2 * math.sqrt(10**6 + 5) / 2**22)


def test_epsilon_is_in_the_summary(tmp_path):
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    privacy = Privacy(clip=1.0, noise_multiplier=1.0)
    run(tmp_path / "run", federation(), rounds=3, privacy=privacy, scale=0.5,
        fraction_evaluate=0.0, fraction_train=0.5)  # fmt: skip
    (entry,) = json.loads((tmp_path / "run" / "summary.json").read_text())["configurations"]
    assert entry["privacy"]["epsilon"] == epsilon(privacy, 0.5, 3)
    assert entry["privacy"]["delta"] == 1e-5
    assert not any(event["kind"] == "declined" for event in entry["events"])
