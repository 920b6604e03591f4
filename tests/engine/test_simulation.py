"""Same seed, same draws: across repeats, sweeps, chunk sizes, devices and blocks."""

import jax
import numpy as np
import pytest

import maxfl
from maxfl.engine import local, session, simulation
from maxfl.engine.layout import Rows, rows_at_once

TRAINING = maxfl.Training(
    rounds=7, cohort=5, local_steps=3, batch_size=4, local_lr=0.2, evaluate_every=3, block=6
)


@pytest.fixture(scope="module")
def dropout_model():
    """With dropout, so that its draws are under test too."""
    return maxfl.mlp(4, (6, 5), 3, dropout=0.4)


def train(federation, model, method=None, training=TRAINING, **options):
    options = {"participation": maxfl.opt_out(3), "requirement": maxfl.solo(1.5, 10), **options}
    return maxfl.simulate(federation, model, method or maxfl.maxfl(), training, **options)


def assert_same(one, other, tolerance, configuration=slice(None)):
    """Histories agree: draws exactly, numbers to a tolerance (0: bit for bit)."""
    pick = jax.tree.map(lambda a: a[configuration], (one.evaluation, one.solo, one.params))
    for a, b in zip(
        jax.tree.leaves(pick),
        jax.tree.leaves((other.evaluation, other.solo, other.params)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(one.asked.client[configuration], other.asked.client)
    np.testing.assert_array_equal(one.asked.took_part[configuration], other.asked.took_part)


def test_the_same_run_gives_the_same_bits(small, dropout_model):
    assert_same(train(small, dropout_model), train(small, dropout_model), 0)


def test_evaluations_are_where_they_should_be(small, dropout_model):
    history = train(small, dropout_model)
    np.testing.assert_array_equal(history.rounds, [0, 3, 6, 7])
    assert history.asked.client.shape == (1, 7, 5)


@pytest.mark.parametrize("at_once", [3])
def test_the_layout_of_an_accelerator_does_not_matter(small, dropout_model, monkeypatch, at_once):
    one_by_one = train(small, dropout_model)
    monkeypatch.setattr(session, "compiled_steps", lambda *_: TRAINING.local_steps)
    assert_same(train(small, dropout_model, at_once=at_once), one_by_one, 1e-5)


def test_number_of_devices_does_not_matter(small, dropout_model):
    one = train(small, dropout_model, devices=jax.devices()[:1])
    assert_same(train(small, dropout_model), one, 1e-5)


def test_configurations_on_devices_of_their_own_are_the_same_bits(small, dropout_model):
    """Configurations never meet, so that no sum has another order; solo clients neither."""
    options = {"method": maxfl.maxfl([0.5, 1.0]), "seed": [0, 4], "participation": maxfl.decline(3)}
    one = train(small, dropout_model, devices=jax.devices()[:1], **options)
    two = train(small, dropout_model, devices=jax.devices()[:2], **options)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_array_equal(a, b)


def test_blocks_and_evaluations_do_not_change_the_model(small, dropout_model):
    one = train(small, dropout_model)
    other = train(small, dropout_model, training=TRAINING._replace(evaluate_every=1, block=2))
    for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(one.asked.client, other.asked.client)


@pytest.mark.parametrize("at_once", [1, 8])
def test_a_configuration_of_a_sweep_is_as_when_it_runs_alone(small, dropout_model, at_once):
    seeds, rates, temperatures = [0, 0, 4], [0.2, 0.1, 0.2], [1.0, 0.3, 1.0]
    steps, sizes = [3, 2, 4], [4, 4, 2]
    sweep = train(
        small, dropout_model, maxfl.maxfl(temperature=temperatures),
        TRAINING._replace(local_lr=rates, local_steps=steps, batch_size=sizes),
        seed=seeds, at_once=at_once,
        participation=maxfl.opt_out([3, 2, 4], dropout=[0.0, 0.2, 0.1]),
        requirement=maxfl.solo([1.5, 1.2, 1.4], 10),
    )  # fmt: skip
    for c in range(3):
        alone = train(
            small, dropout_model, maxfl.maxfl(temperature=temperatures[c]),
            TRAINING._replace(local_lr=rates[c], local_steps=steps[c], batch_size=sizes[c]),
            seed=seeds[c],
            participation=maxfl.opt_out([3, 2, 4][c], dropout=[0.0, 0.2, 0.1][c]),
            requirement=maxfl.solo([1.5, 1.2, 1.4][c], 10),
        )  # fmt: skip
        assert_same(sweep, alone, 1e-5, slice(c, c + 1))


def test_a_new_value_does_not_compile_again(small, dropout_model):
    from maxfl.engine.programs import run_block, train_alone

    train(small, dropout_model)
    before = run_block._cache_size(), train_alone._cache_size()
    train(
        small, dropout_model, maxfl.maxfl(temperature=0.123, epsilon=0.5),
        TRAINING._replace(local_lr=0.017, server_lr=0.3, rounds=11), seed=99,
        participation=maxfl.opt_out(5, dropout=0.3), requirement=maxfl.solo(2.0, 10),
    )  # fmt: skip
    assert (run_block._cache_size(), train_alone._cache_size()) == before


def test_methods_face_the_same_clients_and_requirements(small, dropout_model):
    one = train(small, dropout_model, maxfl.fedavg(), participation=maxfl.everyone())
    other = train(small, dropout_model, maxfl.maxfl(), participation=maxfl.everyone())
    np.testing.assert_array_equal(one.asked.client, other.asked.client)
    np.testing.assert_array_equal(one.thresholds.train, other.thresholds.train)


def test_different_seeds_draw_differently(small, dropout_model):
    one, other = (train(small, dropout_model, seed=s).asked.client for s in (1, 2))
    assert (one != other).any()


def test_a_diverging_configuration_does_not_harm_the_others(small, dropout_model):
    rates = [0.2, 1e30]
    sweep = train(
        small, dropout_model, training=TRAINING._replace(local_lr=rates), at_once=2,
        participation=maxfl.everyone(),
    )  # fmt: skip
    np.testing.assert_array_equal(sweep.failed(), [False, True])
    alone = train(small, dropout_model, participation=maxfl.everyone())
    assert_same(sweep, alone, 1e-5, slice(0, 1))


@pytest.mark.parametrize("at_once", [5])
def test_a_client_without_a_requirement_harms_nobody(small, dropout_model, at_once):
    """A NaN requirement: the client has no weight, and the round is the others' round."""
    rho = np.full(small.clients, 1.0, np.float32)
    odd = rho.copy()
    odd[2] = np.inf - np.inf
    training = TRAINING._replace(cohort=6)
    options = {"participation": maxfl.everyone(), "training": training, "at_once": at_once}
    simulation = maxfl.Simulation(
        small, dropout_model, maxfl.maxfl(), training,
        participation=maxfl.everyone(), requirement=maxfl.fixed(1.0, 10), at_once=at_once,
    )  # fmt: skip
    prepared = simulation.prepare()
    bars = prepared.thresholds._replace(train=odd[None])
    prepared = prepared._replace(thresholds=bars)
    *_, (state, block) = simulation.blocks(prepared, simulation.start())
    assert (block.asked.weight[block.asked.client == 2] == 0).all()
    assert (block.asked.weight[block.asked.client != 2] > 0).all()
    plain = train(small, dropout_model, requirement=maxfl.fixed(1.0, 10), **options)
    moved = [
        not np.allclose(a, b)
        for a, b in zip(
            jax.tree.leaves(state.server.params),
            jax.tree.leaves(simulation.start().server.params),
            strict=True,
        )
    ]
    assert all(moved)
    assert not np.allclose(state.server.params[0].weight, plain.params[0].weight)


def test_clients_of_very_unequal_size():
    """1 to 10,000 samples: nothing is padded, and every mean is the client's own."""
    rng = np.random.default_rng(0)
    sizes = [1, 10_000, 3, 257, 4096, 2]
    data = [(rng.normal(size=(n, 4)), rng.integers(0, 3, n)) for n in sizes]
    fed = maxfl.Federation.from_clients(data, data[::-1])
    assert len(fed.train.y) == sum(sizes)
    model = maxfl.mlp(4, (6, 5), 3)
    history = train(
        fed, model, training=TRAINING._replace(cohort=6), participation=maxfl.everyone()
    )
    params = jax.tree.map(lambda a: a[0], history.params)
    for k, (x, y) in enumerate(data):
        losses, hits = local.sample_losses(model, params, x.astype(np.float32), y)
        assert history.evaluation.train_loss[0, -1, k] == pytest.approx(
            float(losses.mean()), rel=1e-4
        )
        k = len(sizes) - 1 - k
        assert history.evaluation.test_loss[0, -1, k] == pytest.approx(
            float(losses.mean()), rel=1e-4
        )
        assert history.evaluation.test_accuracy[0, -1, k] == pytest.approx(
            float(hits.mean()), abs=1e-5
        )
    assert history.asked.took_part.all()


@pytest.mark.parametrize("chunk", [7])
def test_evaluation_does_not_depend_on_its_chunks(small, small_model, monkeypatch, chunk):
    whole = train(small, small_model)
    monkeypatch.setattr(simulation, "rows_at_once", lambda *_: Rows(chunk, chunk))
    assert_same(train(small, small_model), whole, 1e-5)


@pytest.mark.parametrize(
    ("sizes", "rows"), [([12] * 9, 16), ([17] * 9, 32), ([300, 300], 64), ([5000] * 3, 512),
                        ([12] * 99 + [5000], 32), ([10] * 9 + [5000], 64)],
)  # fmt: skip
def test_small_clients_are_measured_in_small_products(sizes, rows):
    assert rows_at_once(sizes, jax.devices()).client == rows


def test_final_weight_is_the_methods_own(small, small_model):
    history = train(
        small, small_model, maxfl.maxfl(temperature=0.5), participation=maxfl.everyone()
    )
    gap = history.evaluation.train_loss[0] - history.thresholds.train[0]
    expected = maxfl.appeal.weight(gap, 0.0, 0.5)
    np.testing.assert_allclose(history.evaluation.weight[0], expected, rtol=1e-4)
    # In a round, clients report the weight of the model they were sent.
    t = int(history.rounds[1])
    asked = history.asked.client[0, t]
    np.testing.assert_allclose(history.asked.weight[0, t], expected[1][asked], rtol=1e-4)


def test_a_federation_of_one_client():
    pair = [([[0.0], [1.0]], [0, 1])]
    fed = maxfl.Federation.from_clients(pair, pair)
    training = TRAINING._replace(cohort=1, rounds=2)
    history = train(fed, maxfl.mlp(1, (2,), 2), training=training, participation=maxfl.everyone())
    assert history.asked.took_part.all()
