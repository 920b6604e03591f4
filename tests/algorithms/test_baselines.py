"""Every method: a round of two clients by hand, rounds against the oracle, FedAvg as a limit."""

import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.algorithms.afl import project
from maxfl.core.algorithm import Client
from maxfl.core.prng import Purpose, key
from maxfl.engine.client_state import rows_needed
from support import oracle
from support import oracle_methods as reference
from support.oracle_runs import (
    LR,
    ROUNDS,
    SEED,
    SERVER_LR,
    STEPS,
    TRAINING,
    minibatch_gradient,
    own_data,
    trained,
)
from support.two_clients import LINEAR, LN2, ONE_STEP, TWO, after, gradients


def test_fedprox_by_hand():
    # One step from the server's model feels no pull. Two steps of client 0: 0.05, then
    # −g₀(0.05) − μ 0.05; so for client 1 from −0.1.
    w, _ = after(maxfl.fedprox(mu=3.0))
    assert w == pytest.approx(-0.025)
    training = ONE_STEP._replace(local_steps=2)
    two = np.asarray(maxfl.simulate(TWO, LINEAR, maxfl.fedprox(3.0), training).params)[0, 0, 0]
    first = 0.05 - 0.1 * (gradients(0.05)[0] + 3 * 0.05)
    second = -0.1 - 0.1 * (gradients(-0.1)[1] + 3 * -0.1)
    assert two == pytest.approx((first + second) / 2, rel=1e-5)


def test_scaffold_by_hand():
    # Round 1 has no control variates: FedAvg. Then c_k = g_k and c = (−½ + 1)/2 = ¼. In round 2
    # client k steps along g_k(w) + c − c_k, both by the mean of g_k(w) + c − c_k.
    w, state = after(maxfl.scaffold())
    assert w == pytest.approx(-0.025)
    assert float(state.server.state.c[0, 0, 0]) == pytest.approx(0.25)
    rows = np.asarray(state.memory.rows[0, :, 0, 0])[np.asarray(state.memory.place[0]) - 1]
    np.testing.assert_allclose(rows, [-0.5, 1.0], rtol=1e-6)
    w, state = after(maxfl.scaffold(), rounds=2)
    g = np.array(gradients(-0.025))
    assert w == pytest.approx(-0.025 - 0.1 * g.mean(), rel=1e-5)
    steps = g + 0.25 - np.array([-0.5, 1.0])
    renewed = np.array([-0.5, 1.0]) - 0.25 + steps  # c_k − c + Δ/(τη)
    assert float(state.server.state.c[0, 0, 0]) == pytest.approx(renewed.mean(), rel=1e-5)


def test_perfedavg_by_hand():
    # One sample each, so all minibatches are alike: w' = −α g_k(0), then a step along g_k(w').
    alpha = 0.3
    ahead = [gradients(-alpha * g)[k] for k, g in enumerate((-0.5, 1.0))]
    w, _ = after(maxfl.perfedavg(alpha))
    assert w == pytest.approx(-0.1 * np.mean(ahead), rel=1e-5)
    # Hessian at 0 along (1, −1): x² · 2 p(1 − p) = x²/2, and g − α H g.
    exact = [g - alpha * x**2 / 2 * g for g, x in zip(ahead, (1, 2), strict=True)]
    w, _ = after(maxfl.perfedavg_hf(alpha, delta=1e-2))
    assert w == pytest.approx(-0.1 * np.mean(exact), rel=1e-3)


def test_perfedavg_clients_use_the_adapted_model():
    history = maxfl.simulate(TWO, LINEAR, maxfl.perfedavg(0.3), ONE_STEP)
    w = float(np.asarray(history.params)[0, 0, 0])
    own = [w - 0.3 * g for g in gradients(w)]
    losses = [np.log1p(np.exp(-2 * own[0])), np.log1p(np.exp(4 * own[1]))]
    np.testing.assert_allclose(history.scores("personal").test_loss[0, -1], losses, rtol=1e-5)


def test_qffl_by_hand():
    # D = ln 2 · g_k; h = ‖g_k‖² + ln 2/0.1, and ‖g₀‖² = ½, ‖g₁‖² = 2.
    w, _ = after(maxfl.qffl(q=1.0))
    assert w == pytest.approx(-LN2 * 0.5 / (2.5 + 20 * LN2), rel=1e-5)


def test_afl_by_hand():
    np.testing.assert_allclose(project(jnp.array([0.6, 0.5])), [0.55, 0.45], rtol=1e-6)
    np.testing.assert_allclose(project(jnp.array([2.0, 0.5, 0.4])), [1, 0, 0], atol=1e-6)
    w, state = after(maxfl.afl(gamma=0.3))  # equal losses leave λ at ½ each
    assert w == pytest.approx(-0.025)
    np.testing.assert_allclose(state.server.state[0], [0.5, 0.5], rtol=1e-6)
    w, state = after(maxfl.afl(gamma=0.3), rounds=2)
    losses = np.array([np.log1p(np.exp(0.05)), np.log1p(np.exp(-0.1))])
    mixture = 0.5 + 0.3 * (losses - losses.mean())
    np.testing.assert_allclose(state.server.state[0], mixture, rtol=1e-5)


def test_mwfed_by_hand():
    # Client 1's requirement is never met: its weight is 4 after a round, 16 after two.
    options = {"requirement": maxfl.custom(lambda *_: [1.0, 0.1])}
    w, state = after(maxfl.mwfed(), **options)
    assert w == pytest.approx(-0.025)
    np.testing.assert_allclose(np.exp(state.server.state[0]), [1, 4], rtol=1e-5)
    w, state = after(maxfl.mwfed(), rounds=2, **options)
    g = gradients(-0.025)
    assert w == pytest.approx(-0.025 - 0.1 * (0.25 * g[0] + g[1]) / 1.25, rel=1e-5)
    np.testing.assert_allclose(np.exp(state.server.state[0]), [1, 16], rtol=1e-5)


def test_pfedme_by_hand():
    # K = 1: θ = −α g_k, and w_k = −η λ α g_k.
    w, state = after(maxfl.pfedme(strength=2.0, inner_steps=1, inner_lr=0.4))
    assert w == pytest.approx(-0.1 * 2.0 * 0.4 * 0.25, rel=1e-5)
    rows = np.asarray(state.memory.rows[0, :, 0, 0])[np.asarray(state.memory.place[0]) - 1]
    np.testing.assert_allclose(rows, [0.2, -0.4], rtol=1e-6)


def test_ditto_by_hand():
    # The server sees FedAvg. v_k = −0.1 g_k; in round 2 it is pulled towards the new w.
    w, state = after(maxfl.ditto(strength=2.0), rounds=2)
    fedavg, _ = after(maxfl.fedavg(), rounds=2)
    assert w == pytest.approx(fedavg)
    first = np.array([0.05, -0.1])
    g = [gradients(v)[k] for k, v in enumerate(first)]
    expected = first - 0.1 * (np.array(g) + 2.0 * (first + 0.025))
    rows = np.asarray(state.memory.rows[0, :, 0, 0])[np.asarray(state.memory.place[0]) - 1]
    np.testing.assert_allclose(rows, expected, rtol=1e-5)


def test_surrogates_by_hand():
    # Gaps −ln 3 and ln 3: q is 3/16 both; 0 and 1; ¼ and ¾; 1/3 and 3.
    loss = jnp.full(2, LN2)
    who = Client(jnp.arange(2), jnp.ones(2), loss, loss, loss + np.log(3) * np.array([1, -1]))
    for method, q in (
        (maxfl.maxfl(), (3 / 16, 3 / 16)),
        (maxfl.maxfl_relu(), (0, 1)),
        (maxfl.maxfl_log(), (0.25, 0.75)),
        (maxfl.maxfl_exponential(), (1 / 3, 3)),
    ):
        np.testing.assert_allclose(method.weight(method.hyper, None, who), q, rtol=1e-5)
    # Δ = −0.05 and 0.1, so a round with ε = ½ and q = (0, 1) is w = −0.1/1.5.
    options = {"requirement": maxfl.custom(lambda *_: [LN2 + 1, LN2 - 1])}
    w, _ = after(maxfl.maxfl_relu(epsilon=0.5), **options)
    assert w == pytest.approx(-0.1 / 1.5, rel=1e-5)


def fedprox_step(w, state, common, rho):  # noqa: ARG001
    return reference.fedprox_round(w, *common, mu=0.7), None


def scaffold_step(option):
    def step(w, state, common, rho):  # noqa: ARG001
        c, own = state or (reference.zeros_like(w), {})
        w, c, own = reference.scaffold_round(w, *common, c, own, option)
        return w, (c, own)

    return step


def perfedavg_step(delta):
    def step(w, state, common, rho):  # noqa: ARG001
        return reference.perfedavg_round(w, *common, alpha=0.3, delta=delta), None

    return step


def qffl_step(w, state, common, rho):  # noqa: ARG001
    return reference.qffl_round(w, *common, q=2.0), None


def afl_step(w, state, common, rho):  # noqa: ARG001
    mixture = np.full(len(common[0]), 1 / len(common[0])) if state is None else state
    return reference.afl_round(w, *common, mixture, gamma=0.1)


def mwfed_step(w, state, common, rho):
    logs = np.zeros(len(common[0])) if state is None else state
    return reference.mwfed_round(w, *common, logs, rho[: len(common[0])], factor=4.0)


def pfedme_step(w, state, common, rho):  # noqa: ARG001
    w, own = reference.pfedme_round(w, *common, lam=2.0, inner_steps=3, inner_lr=0.1)
    return w, {**(state or {}), **own}


def ditto_step(w, state, common, rho):  # noqa: ARG001
    return reference.ditto_round(w, *common, state or {}, lam=0.5)


def surrogate_step(name):
    def step(w, state, common, rho):  # noqa: ARG001
        return reference.maxfl_surrogate_round(w, *common, rho, 0.02, 0.7, name), None

    return step


METHODS = [
    (maxfl.fedprox(0.7), fedprox_step),
    (maxfl.scaffold(), scaffold_step(2)),
    (maxfl.scaffold_1(), scaffold_step(1)),
    (maxfl.perfedavg(0.3), perfedavg_step(None)),
    (maxfl.perfedavg_hf(0.3, 0.05), perfedavg_step(0.05)),
    (maxfl.qffl(2.0), qffl_step),
    (maxfl.afl(0.1), afl_step),
    (maxfl.mwfed(), mwfed_step),
    (maxfl.pfedme(2.0, 3, 0.1), pfedme_step),
    (maxfl.ditto(0.5), ditto_step),
    (maxfl.maxfl_relu(0.7, 0.02), surrogate_step("relu")),
    (maxfl.maxfl_log(0.7, 0.02), surrogate_step("log")),
    (maxfl.maxfl_exponential(0.7, 0.02), surrogate_step("exp")),
]


@pytest.mark.parametrize(("method", "step"), METHODS, ids=lambda v: getattr(v, "name", ""))
def test_rounds_agree_with_the_oracle(small, small_model, method, step):
    history = trained(small, small_model, method)
    clients = own_data(small)
    w = [tuple(map(np.asarray, layer)) for layer in small_model.init(key(SEED, Purpose.INIT))]
    rho, state = history.thresholds.train[0].astype(np.float64), None
    for t in range(ROUNDS):
        cohort = [int(k) for k in history.asked.client[0, t][history.asked.took_part[0, t]]]
        common = (clients[: small.seen], cohort, minibatch_gradient(clients, t), STEPS, LR)
        w, state = step(w, state, (*common, SERVER_LR), rho)
    for ours, theirs in zip(history.params, w, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a[0], b, atol=1e-5)
    if method.name in ("pfedme", "ditto"):
        for k, v in state.items():
            loss = history.scores("personal").train_loss[0, -1, k]
            assert loss == pytest.approx(oracle.loss(v, *clients[k]), abs=1e-5)


@pytest.mark.parametrize(
    ("method", "rate"),
    [
        (maxfl.fedprox(0.0), LR),
        (maxfl.qffl(0.0), LR),
        (maxfl.afl(0.0), LR),
        (maxfl.mwfed(1.0), LR),
        (maxfl.ditto(0.5), LR),
        (maxfl.maxfl_log(1e6, 0.0), LR),
        (maxfl.maxfl_exponential(1e6, 0.0), LR),
        (maxfl.pfedme(1 / LR, 1, 0.07), 0.07),  # λη = 1 and K = 1: FedAvg with the rate α
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_limits_are_fedavg(small, small_model, method, rate):
    limit = trained(small, small_model, method)
    plain = maxfl.simulate(
        small, small_model, maxfl.fedavg(), TRAINING._replace(local_lr=rate), seed=SEED,
        requirement=maxfl.solo(multiple=1.2, steps=5),
    )  # fmt: skip
    for ours, theirs in zip(limit.params, plain.params, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5)


def test_a_personal_model_held_tight_is_the_global_one_and_held_loosely_is_not(small, small_model):
    # λη = 1 puts v_k back on w at every step, less the step itself.
    tight = trained(small, small_model, maxfl.ditto(1 / LR))
    loose = trained(small, small_model, maxfl.ditto(0.0))

    def apart(history):
        personal, shared = history.scores("personal").train_loss, history.evaluation.train_loss
        return abs(np.asarray(personal) - np.asarray(shared))[0, -1, : small.seen].mean()

    assert apart(tight) < 0.5 * apart(loose)


def test_methods_meet_the_same_clients_and_requirements(small, small_model):
    runs = [trained(small, small_model, m) for m in (maxfl.fedprox(0.7), maxfl.scaffold())]
    np.testing.assert_array_equal(runs[0].asked.client, runs[1].asked.client)
    np.testing.assert_array_equal(runs[0].thresholds.train, runs[1].thresholds.train)


def test_memory_grows_with_those_that_have_taken_part():
    many = maxfl.Federation.from_clients([([[1.0]], [0])] * 50, [([[1.0]], [0])] * 50, classes=2)
    training = ONE_STEP._replace(rounds=3)
    simulation = maxfl.Simulation(many, LINEAR, maxfl.ditto(), training)
    state, rows = simulation.start(), []
    for now, block in simulation.blocks(simulation.prepare(), state):
        state = now
        rows.append(state.memory.rows.shape[1])
        assert rows[-1] <= max(2, 2 * 2 * int(block.rounds[-1])), "twice those that took part"
    assert rows == [2, 2, 4, 8]
    places = np.asarray(state.memory.place[0])
    assert int(state.memory.used[0]) == (places > 0).sum() <= 6
    assert sorted(places[places > 0]) == list(range(1, (places > 0).sum() + 1))


def test_rows_are_never_more_than_clients():
    assert [rows_needed(n, 50) for n in (0, 1, 2, 3, 20, 33, 1000)] == [1, 1, 2, 4, 32, 50, 50]
