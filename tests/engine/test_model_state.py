"""State that no gradient trains, against plain NumPy: averaged, or kept by clients."""

import jax
import numpy as np
import pytest

import maxfl
from maxfl.core.prng import Purpose, batch_key, key
from maxfl.engine.minibatches import draw_rows
from support import batch_norm
from support.federations import CLASSES, FEATURES
from support.small import PAPER

SIZES, BATCH, STEPS, RATE, SERVER_LR = (6, 9, 5), 4, 3, 0.3, 0.5


def model(**options):
    return maxfl.Model(lambda k: batch_norm.init(k, FEATURES, CLASSES), batch_norm.apply, **options)


@pytest.fixture(scope="module")
def clients():
    rng = np.random.default_rng(5)
    return [
        (rng.normal(2 * k, 1 + k, (n, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, n))
        for k, n in enumerate(SIZES)
    ]


def run(clients, model, rounds=2, **options):
    """Train with every client in every round, evaluated after each."""
    federation = maxfl.Federation.from_clients(clients, clients, classes=CLASSES)
    training = maxfl.Training(
        rounds=rounds, cohort=3, local_steps=STEPS, batch_size=BATCH, local_lr=RATE,
        server_lr=SERVER_LR, evaluate_every=1, checkpoint_every=4,
    )  # fmt: skip
    options = {
        "requirement": maxfl.fixed(1.0, steps=1, **PAPER),
        "devices": jax.devices()[:1],
        **options,
    }
    return maxfl.simulate(federation, model, maxfl.fedavg(), training, seed=3, **options)


def batches(clients, round_, k):
    """The engine's minibatches of a client in a round."""
    x, y = clients[k]
    draws = key(3, Purpose.TRAINING, round_, k)
    for r in range(STEPS):
        rows = np.asarray(draw_rows(batch_key(draws, r), BATCH, np.int32(len(y))))
        yield x[rows].astype(np.float64), y[rows]


def test_fedavg_averages_state_with_the_model(clients):
    history = run(clients, model())
    v = batch_norm.start(FEATURES, CLASSES)
    for round_ in range(2):
        trained = [batch_norm.train(v, batches(clients, round_, k), RATE) for k in range(3)]
        v = batch_norm.server_step(v, trained, SERVER_LR)
        expected = [batch_norm.loss(v, *client) for client in clients]
        np.testing.assert_allclose(
            history.evaluation.judging_loss[0, round_ + 1], expected, rtol=2e-5
        )
    for name, value in {**history.params.params, **history.params.state}.items():
        np.testing.assert_allclose(value[0], v[name], rtol=2e-5, atol=1e-6, err_msg=name)


def test_clients_that_keep_their_state_send_none(clients):
    """FedBN's statistics: everybody evaluates the global model with its own."""
    history = run(clients, model(keep_local=True), rounds=3)
    v = batch_norm.start(FEATURES, CLASSES)
    states = [{"mean": v["mean"], "var": v["var"]} for _ in clients]
    for round_ in range(3):
        seen = [batch_norm.Variables({**v, **state}) for state in states]
        trained = [batch_norm.train(seen[k], batches(clients, round_, k), RATE) for k in range(3)]
        states = [{"mean": t["mean"], "var": t["var"]} for t in trained]
        stay = [batch_norm.Variables({**t, "mean": v["mean"], "var": v["var"]}) for t in trained]
        v = batch_norm.server_step(v, stay, SERVER_LR)
        expected = [
            batch_norm.loss({**v, **states[k]}, *client) for k, client in enumerate(clients)
        ]
        np.testing.assert_allclose(
            history.evaluation.judging_loss[0, round_ + 1], expected, rtol=5e-5
        )
    np.testing.assert_array_equal(history.params.state["mean"][0], 0)


def test_minibatches_of_two_sizes_are_refused(clients):
    federation = maxfl.Federation.from_clients(clients, clients, classes=CLASSES)
    for sizes, requirement, words in (
        ([2, 4], maxfl.solo(), r"training\.batch_size = .2, 4."),
        (4, maxfl.solo(batch_size=[8, 4]), r"requirement\.batch_size = .4, 8."),
    ):
        with pytest.raises(maxfl.InputError, match=f"{words}.*give one size"):
            maxfl.Simulation(
                federation, model(), maxfl.fedavg(), maxfl.Training(cohort=2, batch_size=sizes),
                requirement=requirement,
            )  # fmt: skip
