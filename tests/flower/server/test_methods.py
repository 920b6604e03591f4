"""Every method that sums can express trains on Flower what it trains in a simulation."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import ConfigRecord

import maxfl
from maxfl import server_optimizers
from maxfl.flower import MaxFL
from maxfl.flower.jax_client import Local, client_app, initial_arrays
from maxfl.flower.server.methods import REFUSED, SUPPORTED, sum_steepness
from maxfl.utils.errors import InputError
from maxfl.utils.tensors import to_named
from support import batch_norm
from support.flower_nodes import START, Nodes, arrays, make_app, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]

TRAINING = maxfl.Training(
    rounds=6, cohort=2, local_steps=3, batch_size=4, local_lr=0.2, server_lr=0.5
)
REQUIREMENT = maxfl.solo(1.5, steps=10)


def both(small, model, method, rounds=6, optimizer=None, **options):
    """Train a federation and its simulation: the models in the end, by name."""
    seen = int(small.is_seen.sum())
    training = TRAINING._replace(rounds=rounds, cohort=seen)
    plain = maxfl.schedules.constant()
    history = maxfl.simulate(
        small, model, method, training, seed=3, requirement=REQUIREMENT,
        server_optimizer=optimizer or server_optimizers.sgd(), server_schedule=plain,
    )  # fmt: skip
    app = client_app(Local(small, model, training, 3), REQUIREMENT)
    nodes = Nodes(*[app] * seen)
    for client, context in enumerate(nodes.contexts.values()):
        context.node_config["partition-id"] = client
    strategy = MaxFL(
        algorithm=method, server_lr=0.5, server_schedule=plain, server_optimizer=optimizer,
        **options,
    )  # fmt: skip
    began = {n: a.numpy() for n, a in initial_arrays(model, 3).items()}
    results = train(strategy, nodes, rounds=rounds, start=began)
    return results[-1][0], {n: w[0] for n, w in to_named(history.params).items()}, began


METHODS = {
    "fedavg": (maxfl.fedavg(), {}),
    "fedavg by samples": (maxfl.fedavg(by_size=1), {}),
    "fedprox": (maxfl.fedprox(0.5), {}),
    "qffl": (maxfl.qffl(2.0), {"local_lr": 0.2}),
    "scaffold": (maxfl.scaffold(), {}),
    "maxfl": (maxfl.maxfl(0.7, epsilon=0.05), {}),
    "maxfl-auto": (maxfl.maxfl_auto(multiple=2.0, quantile=0.3), {}),
    "maxfl-annealed": (maxfl.maxfl_annealed(rounds=4, cooling=0.5), {}),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_that_of_the_simulation(small, name):
    method, options = METHODS[name]
    found, expected, began = both(small, maxfl.mlp(4, (5,), 3), method, **options)
    for array, w in expected.items():
        np.testing.assert_allclose(found[array], w, atol=1e-5)
    assert max(abs(found[n] - began[n]).max() for n in began) > 0.05, "it trains"


def test_methods_differ(small):
    """Or parity shows nothing of what makes them."""
    model = maxfl.mlp(4, (5,), 3)
    found = [both(small, model, method, **options)[0] for method, options in METHODS.values()]
    flat = [np.concatenate([array.ravel() for array in one.values()]) for one in found]
    for i, a in enumerate(flat):
        assert all(abs(a - b).max() > 1e-4 for b in flat[:i])


@pytest.mark.parametrize(
    "optimizer",
    [server_optimizers.momentum(0.8), server_optimizers.adam(), server_optimizers.yogi()],
    ids=["momentum", "adam", "yogi"],
)
@pytest.mark.parametrize("method", [maxfl.maxfl(1.0), maxfl.scaffold()], ids=["maxfl", "scaffold"])
def test_an_optimizer_is_that_of_the_simulation(small, optimizer, method):
    found, expected, _ = both(small, maxfl.mlp(4, (5,), 3), method, optimizer=optimizer)
    for array, w in expected.items():
        np.testing.assert_allclose(found[array], w, atol=2e-5)


@pytest.mark.parametrize("name", ["fedprox", "scaffold", "qffl"])
def test_a_models_state_is_averaged_by_every_method(small, name):
    """BatchNorm's statistics have no gradient: nothing pulls, corrects or optimizes them."""
    method, options = METHODS[name]
    model = maxfl.Model(lambda key: batch_norm.init(key, 4, 3), batch_norm.apply)
    momentum = server_optimizers.momentum()
    found, expected, _ = both(small, model, method, rounds=3, optimizer=momentum, **options)
    assert any(array.startswith("state.") for array in found)
    for array, w in expected.items():
        np.testing.assert_allclose(found[array], w, atol=1e-5)


def test_no_client_sets_the_step_of_qffl_alone():
    """One that claims a loss of 10⁹ is rejected; and h_k is computed, not believed."""
    strategy = MaxFL(algorithm=maxfl.qffl(1.0), local_lr=0.1)
    apps = [make_app(1.0, 2.0) for _ in range(4)]
    honest = train(MaxFL(algorithm=maxfl.qffl(1.0), local_lr=0.1), Nodes(*apps))[-1][0]
    found = train(strategy, Nodes(*apps, make_app(1e9, 2.0)))[-1][0]
    np.testing.assert_array_equal(found["w"], honest["w"])
    event = strategy.rounds[0].events[0]
    assert event.reason == (
        "maxfl-weight is 1e+09, of a loss of 1e+09; 100 times the median of the round is 100"
    )


@pytest.mark.parametrize("change", [0.5, 0.0])
@pytest.mark.parametrize(
    ("q", "weight"),
    [(1.0, 5e-324), (1.0, 1e-310), (0.5, 1e-30), (0.5, 5e-324), (0.1, 1e-40), (0.005, 99.0),
     (0.02, 1e30), (2.0, 9801.0), (5.0, 1e5), (5.0, 99.0**5)],
)  # fmt: skip
def test_no_weight_ends_a_run_of_qffl_or_stops_or_stretches_its_steps(q, weight, change):
    apps = [make_app(1.0, 2.0) for _ in range(4)]
    forged = make_app(1.0, 2.0, change, maxfl_weight=weight)
    strategy = MaxFL(algorithm=maxfl.qffl(q), local_lr=0.1)
    results = train(strategy, Nodes(*apps, forged), rounds=3)
    moved = -np.diff([START["w"][0], *(model["w"][0] for model, _ in results)])
    honest = train(MaxFL(algorithm=maxfl.qffl(q), local_lr=0.1), Nodes(*apps))[-1][0]["w"][0]
    assert all(moved <= 0.5), "no step is longer than the longest update"
    if weight <= 1:  # one that claims a large loss is served
        assert all(moved > 0.2 * (START["w"][0] - honest)), "a fifth of the honest step, or more"
    assert not any(entry.no_step for entry in strategy.rounds)


def test_qffl_keeps_the_clients_that_it_is_for():
    """At the paper's q = 5, a loss four times the others' is a weight a thousand times theirs."""
    apps = [*[make_app(0.5, 2.0) for _ in range(9)], make_app(2.0, 2.0)]
    strategy = MaxFL(algorithm=maxfl.qffl(5.0), local_lr=0.1)
    train(strategy, Nodes(*apps))
    assert strategy.rounds[0].counts.participated == 10


def test_qffl_asks_for_losses():
    """A metric of which more is better would weigh the other way round."""
    app = make_app(-0.8, -0.5)
    with pytest.raises(InputError, match="by q-FFL, which weighs clients by their losses"):
        train(MaxFL(algorithm="qffl", local_lr=0.1), Nodes(app, app))


def test_steepness_by_hand():
    assert sum_steepness(0.0, 0.1, [1.0, 1.0], [5.0, 3.0]) == 2.0
    # F = 4, so F^½ = 2; 2 (1 + ½ · 9/(0.1 · 4))
    assert sum_steepness(0.5, 0.1, [2.0], [3.0]) == pytest.approx(24.5)
    # 1 + 1/0.1 each; a third of a loss of 10⁻¹² counts as ten of them.
    assert sum_steepness(0.5, 0.05, [1.0, 1.0, 1e-6], [1.0] * 3) == pytest.approx(12 * 11)
    assert sum_steepness(0.5, 0.1, [1.0, 1.0, 5e-324], [1.0, 1.0, 0.0]) == pytest.approx(12)
    # Losses of 1, 1 and 10 at q = 5: F^5 + 5 F^4 ‖Δ‖²/η_l, as it is.
    exact = 2 * (1 + 5 * 0.01 / 0.1) + 1e5 + 5 * 1e4 * 0.01 / 0.1
    assert sum_steepness(5.0, 0.1, [1.0, 1.0, 1e5], [0.1] * 3) == pytest.approx(exact)


@pytest.mark.parametrize("method", ["scaffold", "qffl"])
def test_methods_of_plain_sgd_refuse_other_local_optimizers(small, method):
    model, options = maxfl.mlp(4, (5,), 3), {"local_lr": 0.2} if method == "qffl" else {}
    local = Local(small, model, TRAINING, 3, maxfl.local_optimizers.adam())
    nodes = Nodes(*[client_app(local, REQUIREMENT)] * 2)
    for client, context in enumerate(nodes.contexts.values()):
        context.node_config["partition-id"] = client
    began = {n: a.numpy() for n, a in initial_arrays(model, 3).items()}
    with pytest.raises(InputError, match="defined for plain local SGD"):
        train(MaxFL(algorithm=method, **options), nodes, start=began)


def test_fedprox_tells_apps_what_flowers_own_tells_them():
    strategy, nodes = MaxFL(algorithm=maxfl.fedprox(0.3)), Nodes(*[make_app(1.0, 2.0)] * 2)
    message, _ = strategy.configure_train(1, arrays(START), ConfigRecord(), nodes)
    assert message.content["config"]["proximal-mu"] == 0.3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"algorithm": "fedprx"}, "algorithm = 'fedprx': expected one of maxfl, maxfl-auto"),
        ({"algorithm": 3}, "algorithm = 3: expected one of"),
        ({"algorithm": maxfl.fedavg(), "temperature": 1.0}, "numbers of its own"),
        ({"algorithm": maxfl.fedprox([0.1, 1.0])}, "of a sweep"),
        ({"algorithm": maxfl.fedavg(by_size=0.5)}, "expected 0, all alike, or 1"),
        ({"algorithm": "qffl"}, "q-FFL's step needs local_lr="),
        ({"algorithm": "fedavg", "local_lr": 0.1}, "only the step of q-FFL needs"),
        ({"algorithm": "scaffold", "aggregator": maxfl.aggregators.median()}, "robustly"),
        ({"algorithm": "fedprox", "observe_only": True}, "algorithm = fedprox has no effect"),
        ({"server_optimizer": "adam"}, "maxfl.server_optimizers.adam"),
        ({"server_optimizer": server_optimizers.adam()}, "usual values are near 0.01"),
        ({"algorithm": "qffl", "local_lr": "0.1"}, "local_lr = '0.1': expected one number"),
        ({"observe_only": True, "local_lr": 0.1}, "only the step of q-FFL needs"),
        ({"server_optimizer": server_optimizers.adam(), "server_lr": [0.1, 0.2]}, "one number"),
        ({"trained_arrays": []}, "nothing would travel"),
        ({"trained_arrays": "*b*"}, "expected a list"),
        ({"trained_arrays": [1]}, "expected a list of strings"),
        ({"algorithm": maxfl.fedavg()._replace(name="mine")}, "a method of your own"),
    ],
)
def test_what_sums_can_not_express_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        MaxFL(**options)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_every_other_method_is_refused_with_the_reason(name):
    with pytest.raises(InputError, match=f"algorithm = {name}: not on Flower, since "):
        MaxFL(algorithm=name)


def test_a_rate_may_be_of_numpy():
    assert MaxFL(algorithm="qffl", local_lr=np.float32(0.5))._config.local_rate == 0.5


def test_arrays_are_read_by_name_in_any_order():
    def reversed_app(app):
        def answer(message, context):
            reply = app(message, context)
            model = {n: a.numpy() for n, a in reply.content["arrays"].items()}
            reply.content["arrays"] = arrays(dict(reversed(model.items())))
            return reply

        return answer

    apps = [make_app(1.0, 2.0, 0.1), make_app(2.0, 2.0, 0.3)]
    ((found, _),) = train(MaxFL(), Nodes(apps[0], reversed_app(apps[1])))
    ((plain, _),) = train(MaxFL(), Nodes(*apps))
    assert list(found) == list(START)
    np.testing.assert_array_equal(found["w"], plain["w"])


def test_methods_have_their_names_in_python_too():
    assert MaxFL(algorithm="maxfl_annealed")._config.algorithm.name == "maxfl-annealed"


def test_every_method_is_known_here():
    assert {*SUPPORTED, *REFUSED} == set(maxfl.algorithms.ALGORITHMS)
