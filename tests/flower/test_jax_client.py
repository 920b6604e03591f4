"""A client in JAX trains as the simulation does."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.flower import MaxFL
from support.flower_nodes import Nodes, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


@pytest.mark.parametrize("start", [None, 2])
@pytest.mark.parametrize("solver", ["auto", 0.5])
def test_the_same_model_as_the_simulation(small, start, solver):
    """Everybody is asked in every round, so both draw the same cohorts; 5 rounds, 1e-5."""
    import maxfl
    from maxfl.flower.jax_client import Local, client_app, initial_arrays
    from maxfl.utils.files import to_named

    seen = int(small.is_seen.sum())
    training = maxfl.Training(rounds=5, cohort=seen, local_steps=3, batch_size=4, server_lr=0.5)
    model = maxfl.mlp(4, (5,), 3)
    requirement = maxfl.solo(steps=10)
    history = maxfl.simulate(
        small, model, maxfl.maxfl_auto() if solver == "auto" else maxfl.maxfl(solver), training,
        seed=3, requirement=requirement,
        server_schedule=maxfl.schedules.exponential(0.18) if solver == "auto" else None,
        participation=maxfl.everyone() if start is None else maxfl.decline(start_round=start),
    )  # fmt: skip
    sized_by_data = maxfl.mlp((5,))
    app = client_app(Local(small, sized_by_data, training, 3), requirement)
    nodes = Nodes(*[app] * seen)
    for client, context in enumerate(nodes.contexts.values()):
        context.node_config["partition-id"] = client
    strategy = MaxFL(temperature=solver, server_lr=0.5, decline_after=start)
    began = {n: a.numpy() for n, a in initial_arrays(model, 3).items()}
    results = train(strategy, nodes, rounds=5, start=began)
    for name, w in to_named(history.params).items():
        np.testing.assert_allclose(results[-1][0][name], w[0], atol=1e-5)
    participated = np.asarray(history.cohorts.participated)[0].sum(1)
    assert [c.participated for c in strategy.counts.values()] == participated.tolist()
    if start is not None:
        assert participated.min() < seen, "somebody declined, or this shows nothing"


@pytest.mark.parametrize("keep_local", [False, True])
def test_state_schedules_and_optimizers_are_those_of_the_simulation(small, keep_local):
    """A BatchNorm whose statistics are averaged at rate 1, or stay on the nodes."""
    import maxfl
    from maxfl.flower.jax_client import Local, client_app, initial_arrays
    from maxfl.utils.files import to_named
    from support import batch_norm

    model = maxfl.Model(
        lambda key: batch_norm.init(key, 4, 3), batch_norm.apply, keep_local=keep_local
    )
    seen = int(small.is_seen.sum())
    training = maxfl.Training(rounds=3, cohort=seen, local_steps=3, batch_size=4, server_lr=0.5)
    steps = {
        "local_optimizer": maxfl.local_optimizers.momentum(0.5, weight_decay=0.1),
        "local_schedule": maxfl.schedules.cosine(0.1, rounds=3),
    }
    requirement = maxfl.solo(steps=10)
    history = maxfl.simulate(
        small, model, maxfl.maxfl(), training, seed=3, requirement=requirement, **steps
    )
    nodes = Nodes(*[client_app(Local(small, model, training, 3, **steps), requirement)] * seen)
    for client, context in enumerate(nodes.contexts.values()):
        context.node_config["partition-id"] = client
    strategy = MaxFL(temperature=1.0, server_lr=0.5)
    began = {n: a.numpy() for n, a in initial_arrays(model, 3).items()}
    results = train(strategy, nodes, rounds=3, start=began)
    for name, w in to_named(history.params).items():
        np.testing.assert_allclose(results[-1][0][name], w[0], atol=1e-5, err_msg=name)
    moved = (results[-1][0]["state.mean"] != began["state.mean"]).any()
    assert moved != keep_local


def test_patterns_that_match_nothing_are_refused():
    import maxfl

    with pytest.raises(maxfl.InputError, match=r"running_\*.*are called"):
        train(MaxFL(state_arrays=["*.running_*"]), Nodes(), rounds=1, start={"w": np.zeros(2)})


def test_only_what_is_trained_travels():
    import jax

    import maxfl
    from maxfl.flower.jax_client import initial_arrays

    base = maxfl.mlp(4, (5,), 3)
    adapted = maxfl.lora(base, 2, params=base.init(jax.random.key(0)))
    sent = initial_arrays(adapted, 3)
    assert sum(array.numpy().size for array in sent.values()) == 2 * (4 + 5) + 2 * (5 + 3)
    assert all(name.endswith((".A", ".B")) for name in sent)
