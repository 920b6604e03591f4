"""FedAvg and MaxFL in the engine, followed round by round by the oracle."""

import numpy as np

import maxfl
from maxfl.core.judging import with_judging
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

ROUNDS, START = 6, 2


def assert_many_rounds(
    algorithm, participation=None, temperatures=None, server_rates=None, **options
):
    """Train in the engine, and replay it: models, weights, and who participated.

    Of MaxFL, T = 0.7 and plain steps unless they are given for each round.

    Returns:
        The history.
    """
    participation = participation or maxfl.everyone()
    training = TRAINING._replace(rounds=ROUNDS)
    history = trained(algorithm, training, participation=participation, **options)
    federation = small.SMALL
    if "requirement" in options:
        federation = with_judging(federation, options["requirement"].judging)
    clients, judged = client_data(federation.train), client_data(federation.judged)
    w = initial_params()
    rho = history.thresholds.judging[0].astype(float)
    for t in range(ROUNDS):
        cohort = participants(history, t)
        assert cohort, "the setting should keep someone in each round"
        if participation.rule != "everyone" and t >= START:
            wants = oracle.willing(w, judged, rho)[: small.SMALL.seen]
            assert all(wants[k] for k in cohort)
            if participation.rule == "opt-out":
                assert len(cohort) == min(TRAINING.cohort, sum(wants))
        batches = [minibatches(t, k, len(clients[k][1])) for k in cohort]
        if algorithm.name == "fedavg":
            w = oracle.fedavg_round(w, clients, cohort, batches, LR, SERVER_LR)
        else:
            temperature = temperatures[t] if temperatures else 0.7
            rate = SERVER_LR * (server_rates[t] if server_rates else 1.0)
            losses = [oracle.loss(w, *data) for data in judged]
            np.testing.assert_allclose(history.evaluation.judging_loss[0, t], losses, atol=1e-5)
            q = [oracle.weight(losses[k] - rho[k], temperature) for k in cohort]
            present = history.cohorts.participated[0, t]
            np.testing.assert_allclose(history.cohorts.weight[0, t, present], q, atol=1e-5)
            w = oracle.maxfl_round(
                w, clients, rho, cohort, batches, LR, rate, 0.02, temperature, judged
            )
    assert_params(history, w)
    return history
