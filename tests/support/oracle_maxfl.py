"""FedAvg and MaxFL in the engine, followed round by round by the oracle."""

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

ROUNDS, START = 6, 2


def assert_many_rounds(algorithm, participation=None, temperatures=None, server_rates=None):
    """Train in the engine, and replay it: models, and who participated.

    Of MaxFL, T = 0.7 and plain steps unless they are given for each round.
    """
    participation = participation or maxfl.everyone()
    history = trained(algorithm, TRAINING._replace(rounds=ROUNDS), participation=participation)
    clients, w = client_data(), initial_params()
    rho = history.thresholds.judging[0].astype(float)
    for t in range(ROUNDS):
        cohort = participants(history, t)
        assert cohort, "the setting should keep someone in each round"
        if participation.rule != "everyone" and t >= START:
            wants = oracle.willing(w, clients, rho)[: small.SMALL.seen]
            assert all(wants[k] for k in cohort)
            if participation.rule == "opt-out":
                assert len(cohort) == min(TRAINING.cohort, sum(wants))
        batches = [minibatches(t, k, len(clients[k][1])) for k in cohort]
        if algorithm.name == "fedavg":
            w = oracle.fedavg_round(w, clients, cohort, batches, LR, SERVER_LR)
        else:
            temperature = temperatures[t] if temperatures else 0.7
            rate = SERVER_LR * (server_rates[t] if server_rates else 1.0)
            w = oracle.maxfl_round(w, clients, rho, cohort, batches, LR, rate, 0.02, temperature)
    assert_params(history, w)
