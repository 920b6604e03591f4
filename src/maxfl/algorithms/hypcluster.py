"""HypCluster: each client picks one of K models, which minimise the loss over all their samples.

Mansour, Mohri, Ro, Suresh, "Three Approaches for Personalization with Applications to Federated
Learning", 2020, algorithm 1, with FedAvg for its steps of SGD on the sum of n_k F_k(w_j) over the
clients of model j.

    j_k = argmin_j F_k(w_j),   w_k ← τ steps of SGD from w_{j_k}
    w_j ← w_j − η_g · Σ n_k (w_j − w_k) / Σ n_k over the clients k with j_k = j

It differs from IFCA in the weight n_k, the samples that a client trains on, and so from FedAvg with
``by_size=1`` in the picking alone, which is the portfolio's (``core.portfolio``).
"""

from maxfl.algorithms.fedavg import fedavg
from maxfl.core.algorithm import Algorithm


def hypcluster() -> Algorithm:
    """Return HypCluster: IFCA with clients weighed by their number of samples."""
    return fedavg(by_size=1.0)._replace(name="hypcluster", never_starts_anew=True)
