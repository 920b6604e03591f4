"""Local optimizers and schedules in rounds, against plain NumPy; and what refuses them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.prng import Purpose, batch_key, key
from maxfl.engine.minibatches import draw_rows
from support.small import PAPER, simulation

BATCH, STEPS, ROUNDS, BETAS, ENDS = 4, 3, 3, (0.9, 0.5), (0.1, 0.4)


def clients():
    rng = np.random.default_rng(2)
    return [(rng.normal(size=(n, 2)).astype(np.float32), rng.normal(size=n)) for n in (5, 8)]


def by_numpy(beta, end, decay=0.1, rate=0.2, server_lr=0.5):
    """FedAvg on squared errors with momentum, weight decay, and rates that fall on a line."""
    w = np.zeros(2)
    for t in range(ROUNDS):
        falling = 1 - (1 - end) * t / (ROUNDS - 1)
        trained = []
        for k, (x, y) in enumerate(clients()):
            v, moment = w, np.zeros(2)
            draws = key(3, Purpose.TRAINING, t, k)
            for r in range(STEPS):
                rows = np.asarray(draw_rows(batch_key(draws, r), BATCH, np.int32(len(y))))
                gradient = 2 * x[rows].T @ (x[rows] @ v - y[rows]) / BATCH
                moment = beta * moment + gradient + decay * v
                v = v - rate * falling * moment
            trained.append(v)
        w = w - server_lr * falling * (w - np.mean(trained, axis=0))
    return w


@pytest.mark.slow
def test_a_sweep_over_momentum_and_schedules_agrees_with_numpy():
    federation = maxfl.Federation.from_clients(clients(), clients())
    model = maxfl.Model(
        lambda _: jnp.zeros(2), lambda w, x, _=None: x @ w, loss=maxfl.losses.squared_error
    )
    training = maxfl.Training(
        rounds=ROUNDS, cohort=2, local_steps=STEPS, batch_size=BATCH, local_lr=0.2, server_lr=0.5,
        evaluate_every=3, checkpoint_every=4,
    )  # fmt: skip
    history = maxfl.simulate(
        federation, model, maxfl.fedavg(), training, seed=3,
        local_optimizer=maxfl.local_optimizers.momentum(BETAS, weight_decay=0.1),
        local_schedule=maxfl.schedules.linear(ENDS), server_schedule=maxfl.schedules.linear(ENDS),
        requirement=maxfl.fixed(1.0, steps=1, **PAPER), devices=jax.devices()[:1],
    )  # fmt: skip
    expected = [by_numpy(beta, end) for beta, end in zip(BETAS, ENDS, strict=True)]
    np.testing.assert_allclose(history.params, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["scaffold", "scaffold-1", "qffl", "pfedme"])
@pytest.mark.parametrize(
    "optimizer",
    [maxfl.local_optimizers.adam(), maxfl.local_optimizers.sgd(clip_norm=1.0)],
    ids=["adam", "clipped"],
)
def test_methods_defined_for_sgd_refuse_others(method, optimizer):
    with pytest.raises(maxfl.InputError, match=f"{method} is defined for plain SGD"):
        simulation(maxfl.ALGORITHMS[method](), local_optimizer=optimizer)


def test_a_description_knows_steps_losses_metrics_and_state():
    """What a resumed run is compared by."""
    from support import batch_norm

    plain = simulation(maxfl.fedavg()).describe()
    others = [
        {"local_optimizer": maxfl.local_optimizers.momentum()},
        {"local_optimizer": maxfl.local_optimizers.momentum(0.8)},
        {"local_schedule": maxfl.schedules.cosine()},
        {"server_schedule": maxfl.schedules.cosine(0.2)},
        {"server_schedule": maxfl.schedules.constant(warmup=2)},
    ]
    found = [plain] + [simulation(maxfl.fedavg(), **options).describe() for options in others]

    def norm(features):
        return lambda key: batch_norm.init(key, features, 3)

    init = norm(4)
    models = [
        maxfl.Model(init, batch_norm.apply),
        maxfl.Model(init, batch_norm.apply, keep_local=True),
        maxfl.Model(init, batch_norm.apply, metrics={"hits": maxfl.metrics.accuracy}),
        maxfl.Model(
            init,
            batch_norm.apply,
            metrics={"hits": maxfl.metrics.accuracy._replace(of_mean=jnp.sqrt)},
        ),
        maxfl.Model(
            init,
            batch_norm.apply,
            loss=lambda o, y: maxfl.losses.cross_entropy(2 * o, y),
            metrics={"accuracy": maxfl.metrics.accuracy},
        ),
    ]
    found += [simulation(maxfl.fedavg(), model=model).describe() for model in models]
    assert all(a != b for i, a in enumerate(found) for b in found[:i])


def test_flipped_labels_need_classes():
    federation = maxfl.Federation.from_clients(clients(), clients())
    model = maxfl.Model(
        lambda _: jnp.zeros(2), lambda w, x, _=None: x @ w, loss=maxfl.losses.squared_error
    )
    with pytest.raises(maxfl.InputError, match=r"attack\.flip_labels reverses classes"):
        maxfl.Simulation(
            federation, model, maxfl.fedavg(), maxfl.Training(cohort=2),
            attack=maxfl.attacks.byzantine(0.5, flip_labels=True),
        )  # fmt: skip
