"""Every claim of the paper's appendix that can be checked, checked."""

import csv

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.cli.app import app
from maxfl.core import appeal
from maxfl.core.surrogates import EXPONENTIAL, LOG, RELU, SIGMOID, SURROGATES
from maxfl.paper.theory.convergence import RATE, convergence, follow
from maxfl.paper.theory.finding import write
from maxfl.paper.theory.mean_estimation import (
    Draws,
    Models,
    at_mean,
    curvature_at_the_middle,
    distances,
    draw,
    gm_appeal,
    local_minimum,
    lower_bound,
    settle,
    sides,
    slope,
    two_clients,
    upper_bound,
    value,
)
from maxfl.paper.theory.three_clients import global_minimum, solve, three_clients
from maxfl.paper.theory.two_clients import (
    POINTS,
    appeal_curves,
    learning_rate,
    mean_estimation,
    surrogates,
)
from maxfl.paper.theory.weight_curve import weight_curve
from maxfl.utils.errors import InputError


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("surrogate", SURROGATES, ids=lambda s: s.name)
def test_slopes_are_those_of_the_landscape(surrogate):
    means = np.array([0.4, 2.5, -1.0])

    def v(w):
        return surrogate.value((w - jnp.asarray(means)) ** 2).mean()

    for w in (-1.3, 0.1, 1.9):
        ours = slope(surrogate, w - means)
        assert ours == pytest.approx(float(jax.grad(v)(w)), rel=1e-4)


def test_gm_appeal_is_the_definition():
    problem = two_clients(2.0, 1.0, 2_000, rng())
    models = Models(np.zeros(2_000, int), rng(1).normal(size=2_000))
    w = problem.empirical[:, 0] + models.offset
    plain = (w[:, None] - problem.true) ** 2 < (problem.empirical - problem.true) ** 2
    np.testing.assert_array_equal(gm_appeal(problem, models), plain.mean(1))
    # Two clients of one mean: the mean of both is nearer with probability (π/4 + arctan 3)/π.
    same = two_clients(0.0, 1.0, 100_000, rng())
    exact = (np.pi / 4 + np.arctan(3)) / np.pi
    assert gm_appeal(same, at_mean(same)).mean() == pytest.approx(exact, abs=5e-3)


@pytest.mark.parametrize("variance", [0.5, 1.0, 2.0])
def test_lemma_1_fedavgs_appeal_is_below_its_bound(variance):
    for heterogeneity in POINTS:
        problem = two_clients(float(heterogeneity), variance, 4_000, rng())
        share = gm_appeal(problem, at_mean(problem))
        error = 4 * share.std() / np.sqrt(len(share))
        assert share.mean() <= upper_bound(heterogeneity, variance) + error


@pytest.mark.parametrize("surrogate", [RELU, LOG, EXPONENTIAL], ids=lambda s: s.name)
def test_lemma_2_convex_surrogates_have_their_minimum_at_the_mean(surrogate):
    problem = two_clients(4.0, 1.0, 2_000, rng())
    span = np.diff(problem.empirical)[:, 0]
    ends = np.minimum(span, 0), np.maximum(span, 0)  # from client 0 to client 1
    models = settle(surrogate, problem, np.zeros(2_000, int), *ends)
    np.testing.assert_allclose(models.offset, span / 2, atol=1e-9)
    for share in (0.1, 0.3, 0.49):  # it falls until there and rises after, so there is no other
        before, after = (
            slope(surrogate, distances(problem, Models(models.anchor, span * s)))
            for s in (share, 1 - share)
        )
        assert (before * span < 0).all()
        assert (after * span > 0).all()


def test_lemma_3_the_midpoint_stops_being_a_minimum_at_1_022():
    half = np.linspace(0.5, 3, 25_001)
    sign = curvature_at_the_middle(half) < 0
    crossing = half[np.argmax(sign)]
    assert crossing == pytest.approx(1.022, abs=1e-3)
    assert sign[half > crossing].all()
    # The formula against automatic differentiation of the objective itself.
    with jax.enable_x64(True):
        for g in (0.6, 1.02, 1.03, 2.5):
            means = jnp.array([-g, g])
            second = jax.grad(jax.grad(lambda w, m=means: SIGMOID.value((w - m) ** 2).mean()))(0.0)
            q = float(appeal.weight(g**2, 0.0))
            assert float(second) / (2 * q) == pytest.approx(
                float(curvature_at_the_middle(g)), rel=1e-6
            )


def test_lemma_4_no_local_minimum_outside_its_range():
    problem = two_clients(6.0, 1.0, 5_000, rng())
    low, high = problem.empirical.min(1), problem.empirical.max(1)
    for seed in range(3):
        distance = abs(distances(problem, local_minimum(SIGMOID, problem, sides(5_000, rng(seed)))))
        assert (distance.min(1) <= 2).all()
    # And none hides elsewhere: on a grid, every local minimum lies within 2 of a mean.
    for a, b in zip(low[:500], high[:500], strict=True):
        w = np.linspace(a - 1, b + 1, 2001)
        v = value(SIGMOID, np.array([a, b]), w)
        inner = np.flatnonzero((v[1:-1] < v[:-2]) & (v[1:-1] < v[2:])) + 1
        distance = np.minimum(abs(w[inner] - a), abs(w[inner] - b))
        assert (distance <= 2 + 1e-2).all()
        assert ((w[inner] >= a - 1e-2) & (w[inner] <= b + 1e-2)).all()


def test_what_bisection_finds_is_a_minimum():
    problem = two_clients(2.0, 1.0, 3_000, rng())
    models = local_minimum(SIGMOID, problem, sides(3_000, rng(1)))
    distance = distances(problem, models)
    here = value(SIGMOID, distance, np.zeros(len(distance)))
    for step in (-1e-3, 1e-3):
        assert (value(SIGMOID, distance + step, np.zeros(len(distance))) >= here - 1e-12).all()


@pytest.mark.parametrize(
    "variance", [0.5, *(pytest.param(v, marks=pytest.mark.slow) for v in (1.0, 4.0))]
)
def test_theorem_1_maxfls_appeal_is_above_its_bound_whatever_the_heterogeneity(variance):
    """Of any local minimum: the worse of the two sides, draw by draw."""
    for heterogeneity in (0.0, 1.0, 5.0, 20.0, 100.0):
        problem = two_clients(heterogeneity, variance, 4_000, rng())
        both = [
            gm_appeal(problem, local_minimum(SIGMOID, problem, np.full(4_000, side)))
            for side in (0, 1)
        ]
        assert np.minimum(*both).mean() >= lower_bound(variance)


@pytest.mark.parametrize("heterogeneity", [100.0, pytest.param(1e4, marks=pytest.mark.slow)])
def test_far_apart_maxfl_satisfies_a_quarter(heterogeneity):
    """It settles next to one of two clients, on the side of the other: right half of the time."""
    problem = two_clients(heterogeneity, 1.0, 20_000, rng())
    share = gm_appeal(problem, local_minimum(SIGMOID, problem, sides(20_000, rng(1))))
    assert share.mean() == pytest.approx(0.25, abs=0.01)
    assert gm_appeal(problem, at_mean(problem)).mean() == 0


def test_offsets_are_kept_where_a_sum_would_lose_them():
    problem = Draws(np.array([0.0, 16.0]), np.array([[-1.0, 15.0]]))
    models = local_minimum(SIGMOID, problem, np.array([0]))
    assert 0 < models.offset[0] < 1e-60
    assert problem.empirical[0, 0] + models.offset[0] == problem.empirical[0, 0]
    # Client 0 is at −1 and wants 0: any step up is better.
    assert gm_appeal(problem, models)[0] == 0.5


def test_three_clients():
    alike = solve((0.0, 0.0, 0.0), 0.01, 200, 0)
    assert alike.maxfl == pytest.approx(alike.fedavg, abs=0.02)
    odd = solve((0.0, 0.0, 9.0), 0.1, 400, 0)
    assert odd.maxfl > 0.35 > 0.05 > odd.fedavg
    problem = draw(np.array([-9.0, 0.0, 9.0]), 0.1, 50, rng())
    distance = abs(distances(problem, global_minimum(problem)))
    assert (distance.min(1) < 0.01).all(), "MaxFL picks one of three"
    # The middle one here is nearer to a neighbour, so its valley is the deepest.
    nearer = Draws(np.zeros(3), np.array([[-3.0, 0.0, 2.0]]))
    assert global_minimum(nearer).anchor[0] in (1, 2)


@pytest.mark.slow
def test_the_sweep_is_paired_and_repeatable():
    first, again = (appeal_curves((SIGMOID,), 1.0, 300, 3) for _ in range(2))
    beside = appeal_curves((RELU, SIGMOID), 1.0, 300, 3)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        np.testing.assert_array_equal(first[name], beside[name])


def test_the_step_and_the_weight_curve():
    rows = learning_rate(2.0).columns
    means = np.array([-2.0, 2.0])
    for i in (0, 100, 240):
        q = appeal.weight((rows["w"][i] - means) ** 2, 0.0).sum()
        assert rows["step_epsilon_0.001"][i] == pytest.approx(1 / (q + 1e-3))
    curve = weight_curve([1.0]).columns
    peak = int(np.argmax(curve["T = 1"]))
    assert (curve["gap"][peak], curve["T = 1"][peak]) == (0.0, 0.25)


@pytest.mark.slow
def test_convergence_is_at_least_as_fast_as_the_theorems_rate():
    short, long = (follow(rounds, 0).squared_norms.min() for rounds in (100, 400))
    assert long < short * (400 / 100) ** RATE


@pytest.mark.slow
def test_findings_write_figures_and_numbers(tmp_path):
    findings = [
        mean_estimation(draws=50), surrogates(draws=20), three_clients(draws=5), weight_curve(),
        learning_rate(), convergence((4, 8), seeds=1),
    ]  # fmt: skip
    for finding in findings:
        png, svg, table = write(finding, tmp_path)
        assert png.read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in svg.read_bytes()
        with table.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert rows[0].keys() == finding.columns.keys()
        assert len(rows) == len(next(iter(finding.columns.values())))
        assert all(len(row) == len(finding.headings) for row in finding.rows)
        assert finding.sentence.endswith(".")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mean_estimation(variance=-1.0), "variance = -1"),
        (lambda: mean_estimation(draws=0), "draws = 0"),
        (lambda: surrogates(variance=0.0), "variance = 0"),
        (lambda: two_clients(-1.0, 1.0, 5, rng()), "heterogeneity = -1"),
        (lambda: weight_curve([0.0]), "temperatures = 0"),
        (lambda: weight_curve([1.0, 1.0]), "has one twice"),
        (lambda: learning_rate(-2.0), "half-distance = -2"),
        (lambda: convergence((5,)), "at least two different R"),
        (lambda: convergence((5, 10), seeds=0), "seeds = 0"),
    ],
)
def test_wrong_arguments_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_the_command_writes_and_refuses(tmp_path):
    app(["theory", "weight-curve", "--out", str(tmp_path / "new")], standalone_mode=False)
    assert {p.suffix for p in (tmp_path / "new").iterdir()} == {".png", ".svg", ".csv"}
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file is a file: name a new folder"):
        app(["theory", "weight-curve", "--out", str(tmp_path / "file")], standalone_mode=False)
