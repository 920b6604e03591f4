"""A requirement that is a metric: an oracle in plain NumPy follows the engine round by round."""

import numpy as np
import pytest

import maxfl
from support import oracle, small
from support.oracle_runs import (
    LR,
    SERVER_LR,
    TRAINING,
    assert_params,
    client_data,
    initial_params,
    minibatches,
    participants,
    trained,
)

REQUIRED, TEMPERATURE, EPSILON, START, ROUNDS = 0.45, 0.2, 0.02, 2, 6
ALGORITHM = maxfl.maxfl(temperature=TEMPERATURE, epsilon=EPSILON)
OPTIONS = {
    "participation": maxfl.opt_out(START),
    "requirement": maxfl.metric("accuracy", REQUIRED, steps=5, **small.PAPER),
}


def history():
    return trained(ALGORITHM, TRAINING._replace(rounds=ROUNDS), **OPTIONS)


def accuracies(params):
    return [oracle.accuracy(params, x, y) for x, y in client_data()]


def test_the_metric_decides_who_trains_and_with_which_weight():
    run, clients, w = history(), client_data(), initial_params()
    declined = 0
    for t in range(ROUNDS):
        accuracy = accuracies(w)
        np.testing.assert_allclose(run.evaluation.judging_metric[0, t], accuracy, atol=1e-6)
        wants = [a >= REQUIRED or t < START for a in accuracy]
        assert run.evaluation.willing[0, t].tolist() == wants
        cohort = participants(run, t)
        assert len(cohort) == min(TRAINING.cohort, sum(wants[: small.SMALL.seen]))
        assert all(wants[k] for k in cohort)
        declined += wants.count(False)
        q = [oracle.weight(REQUIRED - accuracy[k], TEMPERATURE) for k in range(len(clients))]
        np.testing.assert_allclose(run.evaluation.weight[0, t], q, atol=1e-5)
        batches = [minibatches(t, k, len(clients[k][1])) for k in cohort]
        deltas = oracle.client_deltas(w, clients, cohort, batches, LR)
        chosen = [q[k] for k in cohort]
        w = oracle.server_step(w, deltas, chosen, sum(chosen) + EPSILON, SERVER_LR)
    assert 0 < declined < ROUNDS * len(clients), "some should leave, and some stay"
    assert_params(run, w)


def test_the_metric_decides_gm_appeal():
    run = history()
    held_out = client_data(small.SMALL.test)
    w = [tuple(np.asarray(a)[0].astype(float) for a in layer) for layer in run.params]
    met = [oracle.accuracy(w, x, y) >= REQUIRED for x, y in held_out]
    assert run.satisfied()[0, -1].tolist() == met
    assert run.gm_appeal("all")[0, -1] == pytest.approx(np.mean(met))
    trained_on = [a >= REQUIRED for a in accuracies(w)]
    assert run.satisfied("judging")[0, -1].tolist() == trained_on


def test_the_same_numbers_in_another_sweep_need_no_other_program():
    other = OPTIONS | {"requirement": maxfl.metric("accuracy", 0.3, steps=5, **small.PAPER)}
    run = trained(ALGORITHM, TRAINING._replace(rounds=ROUNDS), **other)
    np.testing.assert_allclose(run.thresholds.judging, np.float32(0.3))
    assert run.gm_appeal("all")[0, 0] >= history().gm_appeal("all")[0, 0]


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        (maxfl.metric("f1", 0.5), "requirement.metric = 'f1': the model has accuracy"),
        (maxfl.fixed(np.full(8, 0.5)), r"8 losses and the federation 8 clients.*maxfl.per_client"),
        (
            maxfl.metric("accuracy", [0.5] * 8),
            r"8 values of accuracy.*maxfl.per_client\(values, metric=",
        ),
        (maxfl.solo([1.0] * 8), r"8 multiples.*maxfl.custom"),
        (maxfl.fixed([0.5] * 6), r"6 losses and the federation 6 seen clients.*maxfl.per_client"),
        (maxfl.metric("accuracy", 80), r"80 of accuracy, which is a share .* did you mean 0.8"),
        (
            maxfl.per_client([0.5] * 7 + [-1], metric="accuracy"),
            r"-1 of accuracy, which is a share from 0 to 1$",
        ),
    ],
)
def test_requirements_that_do_not_fit_are_refused(requirement, words):
    with pytest.raises(maxfl.InputError, match=words):
        small.simulation(maxfl.fedavg(), requirement=requirement)


def test_a_sweep_as_long_as_the_clients_are_many_says_so_twice():
    seeds, losses = np.arange(8), np.full(8, 0.5)
    sweep = small.simulation(maxfl.fedavg(), requirement=maxfl.fixed(losses), seed=seeds)
    assert sweep.session.configurations == 8


@pytest.mark.slow
def test_fine_tuned_models_weigh_by_their_metric():
    options = OPTIONS | {"participation": maxfl.everyone(), "finetune_steps": 2}
    run = small.simulate(ALGORITHM, TRAINING, seed=3, **options)
    gaps = REQUIRED - run.evaluation.personal.judging_metric
    expected = np.vectorize(lambda gap: oracle.weight(gap, TEMPERATURE))(gaps)
    np.testing.assert_allclose(run.evaluation.weight, expected, atol=1e-5)
    personal = run.evaluation.personal.test_metrics[0] >= np.float32(REQUIRED)
    np.testing.assert_array_equal(run.satisfied(model="personal"), personal)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(maxfl.ALGORITHMS))
def test_every_method_can_be_judged_by_a_metric(name):
    options = OPTIONS | {"participation": maxfl.decline(START)}
    run = small.simulate(maxfl.ALGORITHMS[name](), TRAINING, seed=3, **options)
    assert np.isfinite(run.evaluation.judging_loss).all()
    met = run.evaluation.test_metrics[0] >= np.float32(REQUIRED)
    np.testing.assert_array_equal(run.satisfied(), met)
    early = run.rounds < START
    willing = (run.evaluation.judging_metric >= np.float32(REQUIRED)) | early[:, None]
    np.testing.assert_array_equal(run.evaluation.willing, willing)
    took_part = run.participated()[:, 1:]
    assert not (took_part & ~run.evaluation.willing[:, :-1]).any(), "nobody against its will"
