"""IFCA: each client picks one of K models by its loss, and each model is its clients' plain mean.

Ghosh, Chung, Yin, Ramchandran, "An Efficient Framework for Clustered Federated Learning", NeurIPS
2020, algorithm 1, option II (model averaging).

    j_k = argmin_j F_k(w_j),   w_k ← τ steps of SGD from w_{j_k}
    w_j ← w_j − η_g · mean over the clients k with j_k = j of w_j − w_k

Picking is the portfolio's (``core.portfolio``), so that it differs from FedAvg in a name and in
models that never start anew: a model that no client picks stays as it is. The authors pick by
training loss, as with ``requirement.judge = "training"``; by default clients pick by samples that
they hold out, with every method. With one model it is FedAvg. Option I, which sends one gradient,
is a single local step with a mean over the whole cohort instead of a model's clients.
"""

from maxfl.algorithms.fedavg import BASE
from maxfl.core.algorithm import Algorithm


def ifca() -> Algorithm:
    """Return IFCA: each global model (``portfolio.models``) averages the clients that pick it."""
    return BASE._replace(name="ifca", never_starts_anew=True)
