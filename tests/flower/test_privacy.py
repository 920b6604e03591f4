"""Noise on sums, and what is guaranteed of it."""

import json
import logging
import math

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import ConfigRecord
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

from maxfl.core import appeal
from maxfl.flower import MaxFL, Privacy
from maxfl.flower.privacy import (
    LEVELS,
    add_noise,
    epsilon,
    noise_unit,
    poisson_sample,
    rounding_error,
    sensitivity,
    snap,
)
from maxfl.flower.secure.generator import SecureGenerator
from maxfl.flower.sums import SCALARS, Counts, RoundSums, estimate_near
from support.flower_nodes import START, Nodes, arrays, make_app, train
from support.flower_runs import federation, run
from support.flower_secure import SECURE, Watched, secure_app

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


def test_noisy_sums_lie_on_a_grid():
    """σ = 3 lies above 2, and a grid of 2⁻¹⁰ of that is 2⁻⁹, whatever the noise is added to."""
    assert snap(np.array([0.0011, -1.0, 1 / 3]), 3.0).tolist() == [2**-9, -1.0, 171 / 512]
    privacy, rng = Privacy(clip=4.0, noise_multiplier=1.5), np.random.default_rng(0)
    assert noise_unit(privacy, FIXED, 0) == 3.0  # and so σ = 3 for an update, ¾ for a weight
    for value in (0.0, 1 / 3, math.pi):
        sums = FIXED._replace(update={"w": np.full(500, value)}, weight=value)
        noisy = add_noise(privacy, sums, 0, rng)
        assert np.all(noisy.update["w"] * 2**9 % 1 == 0)
        assert noisy.weight * 2**11 % 1 == 0


def test_noisy_secure_sums_are_modulo_the_protocol():
    """Sums that differ by 2³² steps are one to the protocol, and so noise makes the same of them.

    With C = 2 a step is 2·½/2²² for an update and a weight, and four times that for a count.
    """
    privacy = SECURE._replace(noise_multiplier=1.0)
    low = FIXED._replace(update={"w": np.array([0.3])}, weight=0.2, responded=1.0)
    high = low._replace(update={"w": np.array([1024.3])}, weight=1024.2, responded=4097.0)
    first, second = (
        add_noise(privacy, sums, LEVELS, np.random.default_rng(7)) for sums in (low, high)
    )
    assert first == second
    assert abs(first.weight) < 5


def test_the_accountant_keeps_quiet_about_orders_that_it_leaves_out(caplog):
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    logger = logging.getLogger("absl")
    with caplog.at_level(logging.WARNING, logger="absl"):
        epsilon(Privacy(clip=1.0, noise_multiplier=1.0), 0.25, 2)
        assert caplog.records == []
        logger.warning("Excluding this order")
    assert len(caplog.records) == 1, "but only while it is asked"


def test_noise_makes_no_step_longer_than_an_honest_one():
    """C·η_g: noise on a thousand numbers is longer than what four clients say of them."""
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    start = {"w": np.zeros(1000, np.float32), "state.m": np.zeros(1000, np.float32)}
    privacy = Privacy(clip=2.0, noise_multiplier=0.1)
    strategy = MaxFL(privacy=privacy, temperature=1.0, server_lr=0.25, fraction_evaluate=0.0)
    strategy.rng = SecureGenerator()
    nodes = Nodes(*[make_app(2.0, 2.0, 0.01) for _ in range(4)])
    ((model, _),) = train(strategy, nodes, start=start)
    trained, state = (np.linalg.norm(model[name].astype(np.float64)) for name in start)
    assert strategy.rounds[0].no_step == ""
    # Both are shortened alike, and state is not slowed down by η_g.
    assert math.hypot(trained / 0.25, state) == pytest.approx(2.0, rel=1e-5)
    assert trained < 2.0 * 0.25


def test_who_adds_what_can_not_be_is_found_in_noisy_sums_too():
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    from maxfl.flower.aggregation import Sampled, add_up, why_no_step
    from maxfl.flower.replies.sort import SortedReplies
    from maxfl.flower.round_log import Solver
    from maxfl.flower.secagg_server import SecAggResult

    privacy = SECURE._replace(noise_multiplier=0.5)
    config = MaxFL(privacy=privacy, temperature=1.0, fraction_evaluate=0.0)._config
    sampled, nobody = Sampled([1, 2, 3], 2, set(), Solver(1.0)), SortedReplies([], [], [], [])
    honest = RoundSums({name: 0 * array for name, array in START.items()}, 0.75, 3.0, 0.0, 3.0)

    def total_of(weight, clients):
        secure = SecAggResult(honest._replace(weight=weight), LEVELS, [], clients)
        return add_up(config, START, sampled, nobody, secure, np.random.default_rng(1))

    # How many there were, three, decides nothing: most_drawn(2) is 22, of which ¼ and 6 σ are 7.1.
    for weight in (0.75, 5.0):
        total = total_of(weight, clients=3)
        assert total.sums is not None
        assert total.counts == total_of(weight, clients=300).counts
    total = total_of(90.0, clients=3)
    assert "the secure sums break 0 ≤ Σ q ≤ n/4" in why_no_step(config, total, None, nobody)
    assert total.counts == Counts(2, rejected=2), "two were expected"


def drops_out(message, context):
    """A client whose machine is lost in mid-round."""
    if message.content[RECORD_KEY_CONFIGS][Key.STAGE] == Stage.COLLECT_MASKED_VECTORS:
        raise ValueError("lost")
    return secure_app(1.0, 2.0)(message, context)


def record_of(folder, nodes):
    """All that a private federation of secure clients leaves for others to see, but for times."""
    privacy = SECURE._replace(noise_multiplier=2.0)
    strategy = MaxFL(privacy=privacy, scale=0.5, fraction_evaluate=0.0, folder=folder)
    strategy.rng = np.random.default_rng(5)
    result = strategy.start(nodes, arrays(START), num_rounds=3)
    texts = {path.name: path.read_bytes() for path in folder.iterdir()}
    del texts["model.safetensors"]  # its metadata has the seconds
    summary = json.loads(texts.pop("summary.json"))
    for name in ("seconds", "digest", "files"):
        del summary[name]
    model = {name: array.numpy().tolist() for name, array in result.arrays.items()}
    return strategy.rounds, summary, texts, model


def test_failed_secure_aggregation_looks_like_a_round_lost_in_noise(tmp_path):
    """Two of four machines are lost, which ends the protocol; or all stay, and add zeros."""
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    lost = Watched(*[secure_app(1.0, 2.0)] * 2, drops_out, drops_out)
    silent = Watched(*[secure_app(math.nan, 2.0) for _ in range(4)])
    folders = [tmp_path / name / "run" for name in ("lost", "zeros")]
    failed, zeros = record_of(folders[0], lost), record_of(folders[1], silent)
    assert failed == zeros
    assert {entry.no_step for entry in failed[0]} == {"the round's weight is lost in noise"}
    assert all(entry.events == [] for entry in failed[0])
    # The protocol did fail, and did not.
    assert any(reply.has_error() for reply in lost.seen)
    assert not any(reply.has_error() for reply in silent.seen)


def test_a_client_that_fails_by_its_data_adds_zeros_where_there_is_noise():
    """Loss, update and app: none of them keeps the others' sums from being read."""
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")

    def breaks(*_):
        raise ValueError("no such file")

    bad = [secure_app(math.nan, 2.0), secure_app(1.0, 2.0, math.nan), secure_app(breaks, 2.0)]
    nodes = Watched(*[secure_app(1.0, 2.0, 0.25) for _ in range(3)], *bad)
    privacy = SECURE._replace(noise_multiplier=1e-4)
    strategy = MaxFL(privacy=privacy, temperature=1.0, fraction_evaluate=0.0)
    ((model, _),) = train(strategy, strategy.training_grid(nodes))
    assert not any(reply.has_error() for reply in nodes.seen)
    assert strategy.rounds[0].counts == Counts(6, 3, 3)
    np.testing.assert_allclose(START["w"] - model["w"], 0.25, atol=0.01)


def test_a_strategy_draws_what_nobody_can_predict():
    assert isinstance(MaxFL().rng, SecureGenerator)
