"""FedAvg and MaxFL: two clients and one round by hand, many rounds against the oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.algorithm import Total, average
from maxfl.core.prng import Purpose, batch_key, key
from support import oracle

LINEAR = maxfl.Model(lambda _: jnp.zeros((1, 2)), lambda w, x, _=None: x @ w)
"""Logits x·w from one feature, from zero: every probability is ½ and every loss is ln 2."""

TWO = maxfl.Federation.from_clients(*[[([[1.0]], [0]), ([[2.0]], [1])]] * 2)
ONE_ROUND = maxfl.Training(rounds=1, cohort=2, local_steps=1, batch_size=1, local_lr=0.1)


def one_round(algorithm, **options):
    """The model after one round of both clients."""
    history = maxfl.simulate(TWO, LINEAR, algorithm, ONE_ROUND, **options)
    return np.asarray(history.params)[0]


# Client 0 has x = 1, y = 0: gradient 1·(½ − 1, ½) = (−½, ½), so Δ₀ = (−0.05, 0.05).
# Client 1 has x = 2, y = 1: gradient 2·(½, ½ − 1) = (1, −1),  so Δ₁ = (0.1, −0.1).


def test_fedavg_by_hand():
    # mean Δ = (0.025, −0.025), and w = 0 − mean Δ.
    np.testing.assert_allclose(one_round(maxfl.fedavg()), [[-0.025, 0.025]], rtol=1e-6)


def test_maxfl_by_hand():
    # ρ₀ = ln 2: gap 0, q₀ = ¼. ρ₁ = ln 2 − ln 3: gap ln 3, s = ¾, q₁ = 3/16.
    # Σ qΔ = ¼(−0.05) + 3/16(0.1) = 0.00625; Σ q + ε = 7/16 + 1/16 = ½; w = ∓0.0125.
    rule = maxfl.custom(lambda *_: np.log([2, 2 / 3]))
    w = one_round(maxfl.maxfl(epsilon=1 / 16), requirement=rule)
    np.testing.assert_allclose(w, [[-0.0125, 0.0125]], rtol=1e-5)


def test_maxfl_with_equal_gaps_and_no_epsilon_is_fedavg():
    w = one_round(maxfl.maxfl(epsilon=0.0), requirement=maxfl.fixed(0.4))
    np.testing.assert_allclose(w, one_round(maxfl.fedavg()), rtol=1e-6)


def test_maxfl_at_a_very_high_temperature_is_fedavg():
    rule = maxfl.custom(lambda *_: [0.1, 3.0])
    w = one_round(maxfl.maxfl(temperature=1e6, epsilon=0.0), requirement=rule)
    np.testing.assert_allclose(w, one_round(maxfl.fedavg()), rtol=1e-5)


def test_fedavg_by_size():
    # Client 1 twice as large: (Δ₀ + 2Δ₁)/3 = (0.05, −0.05).
    fed = maxfl.Federation.from_clients(
        [([[1.0]], [0]), ([[2.0]] * 2, [1] * 2)], [([[1.0]], [0])] * 2
    )
    history = maxfl.simulate(fed, LINEAR, maxfl.fedavg(by_size=1), ONE_ROUND)
    np.testing.assert_allclose(np.asarray(history.params)[0], [[-0.05, 0.05]], rtol=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 1e-3])
def test_all_weights_underflowing_leaves_the_model(epsilon):
    # Gaps of about ±1e4 make every q exactly 0.
    for rho in (-1e4, 1e4):
        rule = maxfl.custom(lambda *_, rho=rho: [rho, rho])
        w = one_round(maxfl.maxfl(epsilon=epsilon), requirement=rule)
        np.testing.assert_array_equal(w, [[0.0, 0.0]])


def test_average_works_on_numpy_arrays_too():
    total = Total({"w": np.array([2.0, 4.0])}, np.float64(0.5))
    np.testing.assert_allclose(average(total, 0.5)["w"], [2.0, 4.0])
    np.testing.assert_array_equal(average(total._replace(weight=np.float64(0)))["w"], [0.0, 0.0])


ROUNDS, COHORT, STEPS, BATCH, SEED = 6, 3, 4, 5, 11


def follow(history, federation, step):
    """Replay a run in NumPy with the same cohorts and minibatches; ``step`` is one round."""
    cut = np.split(np.arange(len(federation.train.y)), federation.train.offsets[1:-1])
    clients = [
        (federation.train.x[rows].astype(np.float64), federation.train.y[rows]) for rows in cut
    ]
    for t in range(ROUNDS):
        took_part = history.asked.took_part[0, t]
        cohort = [int(k) for k in history.asked.client[0, t][took_part]]
        step(clients, cohort, [minibatches(t, k, len(clients[k][1])) for k in cohort])


def minibatches(t, k, size):
    """The draws of client k in round t, as the engine's documentation defines them."""
    draws = key(SEED, Purpose.TRAINING, t, k)
    return np.stack([
        jax.random.bits(batch_key(draws, r), (BATCH,), np.uint32) % size
        for r in range(STEPS)
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("method", "participation"),
    [
        (maxfl.fedavg(), maxfl.everyone()),
        (maxfl.fedavg(), maxfl.opt_out(2)),
        (maxfl.maxfl(0.7, 0.02), maxfl.everyone()),
        (maxfl.maxfl(0.7, 0.02), maxfl.opt_out(2)),
        (maxfl.maxfl(0.7, 0.02), maxfl.decline(2)),
        (maxfl.maxfl_annealed(2.0, 0.5, 4, 0.02, 1.0), maxfl.everyone()),
    ],
    ids=lambda value: getattr(value, "name", str(getattr(value, "rule", ""))),
)
def test_many_rounds_agree_with_the_oracle(small, small_model, method, participation):
    training = maxfl.Training(ROUNDS, COHORT, STEPS, BATCH, local_lr=0.2, server_lr=0.9)
    history = maxfl.simulate(
        small, small_model, method, training, seed=SEED, participation=participation,
        requirement=maxfl.solo(multiple=1.2, steps=5),
    )  # fmt: skip
    params = [tuple(map(np.asarray, layer)) for layer in small_model.init(key(SEED, Purpose.INIT))]
    rho = history.thresholds.train[0].astype(np.float64)

    def step(clients, cohort, batches):
        nonlocal params
        if participation.rule != "everyone" and step.t >= 2:
            wants = oracle.willing(params, clients, rho)[: small.seen]
            assert all(wants[k] for k in cohort)
            if participation.rule == "opt-out":
                assert len(cohort) == min(COHORT, sum(wants))
        step.t += 1
        if method.name == "fedavg":
            params = oracle.fedavg_round(params, clients, cohort, batches, 0.2, 0.9)
        else:
            # Annealed from 2 to ½ over 4 rounds: 2, √2, 1, √½, ½, ½; steps shrink likewise.
            annealed = method.name == "maxfl-annealed"
            cooled = 0.5 ** (min(step.t - 1, 4) / 2) if annealed else 1.0
            width = 2.0 * cooled if annealed else 0.7
            params = oracle.maxfl_round(
                params, clients, rho, cohort, batches, 0.2, 0.9 * cooled, 0.02, width
            )

    step.t = 0
    follow(history, small, step)
    assert history.asked.took_part.any(-1).all(), "the setting should keep someone in each round"
    for ours, theirs in zip(history.params, params, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a[0], b, atol=1e-5)
