"""Synthetic(α, β): clients whose models and features differ by two numbers.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated Optimization in Heterogeneous Networks"
(FedProx), 2020, section 5.1; after Shamir, Srebro, Zhang, 2014. For client k:

    u_k ~ N(0, α²),  B_k ~ N(0, β²)
    W_k[i, j] ~ N(u_k, 1),  b_k[j] ~ N(u_k, 1),  v_k[i] ~ N(B_k, 1)
    x ~ N(v_k, Σ),  Σ diagonal with Σ_jj = j^−1.2;  y = argmax(x W_k + b_k)

The paper writes N(0, α); its code takes α as the deviation, and so do we. Sizes are log-normal,
as in the code: 50 + exp N(4, 2²), here cut at ``LARGEST``, which 1.2 % of clients reach; one in a
thousand would exceed 25,000 samples.
"""

import numpy as np

from maxfl.data.dataset import Dataset, numbered
from maxfl.errors import check_count, check_number

FEATURES, CLASSES = 60, 10
SMALLEST, LARGEST = 50, 5_000


def synthetic(clients: int, alpha: float, beta: float, rng: np.random.Generator) -> Dataset:
    """Draw the samples of some clients; ``owner`` is the client's number."""
    check_count("data.clients", clients, least=1)
    check_number("data.synthetic_alpha", alpha, least=0)
    check_number("data.synthetic_beta", beta, least=0)
    extra = rng.lognormal(4, 2, clients).astype(np.int64)
    sizes = np.minimum(SMALLEST + extra, LARGEST)
    deviation = np.arange(1, FEATURES + 1) ** -0.6
    x, y = [], []
    for size in sizes:
        u, centre = rng.normal(0, alpha), rng.normal(0, beta)
        weight = rng.normal(u, 1, (FEATURES, CLASSES))
        bias = rng.normal(u, 1, CLASSES)
        features = rng.normal(rng.normal(centre, 1, FEATURES), deviation, (size, FEATURES))
        x.append(features.astype(np.float32))
        y.append((features @ weight + bias).argmax(1).astype(np.int32))
    return Dataset(
        f"Synthetic({alpha:g}, {beta:g})",
        np.concatenate(x),
        np.concatenate(y),
        numbered(CLASSES),
        owner=np.repeat(np.arange(clients), sizes),
    )
