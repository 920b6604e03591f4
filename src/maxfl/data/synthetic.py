"""Synthetic(α, β): clients whose models and features differ by two numbers.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated Optimization in Heterogeneous Networks"
(FedProx), 2020, section 5.1; after Shamir, Srebro, Zhang, 2014. For client k:

    u_k ~ N(0, α²),  B_k ~ N(0, β²)
    W_k[i, j] ~ N(u_k, 1),  b_k[j] ~ N(u_k, 1),  v_k[i] ~ N(B_k, 1)
    x ~ N(v_k, Σ),  Σ diagonal with Σ_jj = j^−1.2;  y = argmax(x W_k + b_k)

The paper writes N(0, α); its code takes α as the standard deviation, and so do we. Sizes are
log-normal, as in the code: 50 + exp N(4, 2²), here cut at ``LARGEST``, which 1.2 % of clients
reach; one in a thousand would exceed 25,000 samples.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from maxfl.data.dataset import Dataset, numbered
from maxfl.utils.disk_space import explain_disk_full, require_space
from maxfl.utils.errors import check_count, check_number
from maxfl.utils.memory import require_memory

FEATURES, CLASSES = 60, 10
SMALLEST, LARGEST = 50, 5_000


def synthetic(
    clients: int,
    alpha: float,
    beta: float,
    rng: np.random.Generator,
    *,
    samples: int | None = None,
    scratch: Path | None = None,
) -> Dataset:
    """Draw the samples of some clients; ``owner`` is the client's number.

    With ``samples``, every client has that number. With ``scratch``, a folder, what is drawn goes
    into files in it and is mapped, so that it need not fit into memory.
    """
    check_count("data.clients + data.unseen", clients, least=1)
    check_number("data.synthetic_alpha", alpha, least=0)
    check_number("data.synthetic_beta", beta, least=0)
    if scratch is None:
        least = clients * (samples or SMALLEST)
        require_memory(
            4 * least * (FEATURES + 1), "what is drawn",
            "lower data.clients or data.synthetic_samples, or write it to disk (maxfl data write)",
        )  # fmt: skip
    alpha, beta = alpha + 0.0, beta + 0.0  # −0.0 is no standard deviation for NumPy
    if samples is None:
        extra = rng.lognormal(4, 2, clients).astype(np.int64)
        sizes = np.minimum(SMALLEST + extra, LARGEST)
    else:
        sizes = np.full(clients, samples)
    with _Drawn(int(sizes.sum()), scratch) as drawn:
        std = np.arange(1, FEATURES + 1) ** -0.6
        for size in sizes:
            u, centre = rng.normal(0, alpha), rng.normal(0, beta)
            weight = rng.normal(u, 1, (FEATURES, CLASSES))
            bias = rng.normal(u, 1, CLASSES)
            features = rng.normal(rng.normal(centre, 1, FEATURES), std, (size, FEATURES))
            drawn.append(features, (features @ weight + bias).argmax(1))
    x, y = drawn.arrays
    owner = np.repeat(np.arange(clients), sizes)
    return Dataset(f"Synthetic({alpha:g}, {beta:g})", x, y, numbered(CLASSES), owner=owner)


class _Drawn:
    """Samples as they are drawn, in memory or in files."""

    def __init__(self, total: int, scratch: Path | None) -> None:
        self._shapes: tuple[Any, Any] = ((total, FEATURES), np.float32), ((total,), np.int32)
        self._parts: tuple[list[Any], list[Any]] = [], []
        self._scratch, self._open = scratch, ExitStack()
        if scratch is not None:
            room = 4 * total * (FEATURES + 1)
            remedy = "choose a folder on a larger disk, or lower data.clients or the samples"
            require_space(scratch, room, "what is drawn", remedy)
            self._open.enter_context(explain_disk_full(scratch, "what is drawn", room, remedy))
            self._files = [self._open.enter_context((scratch / n).open("wb")) for n in "xy"]

    def __enter__(self) -> "_Drawn":
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def append(self, *samples: Any) -> None:
        for i, (array, (_, dtype)) in enumerate(zip(samples, self._shapes, strict=True)):
            if self._scratch is None:
                self._parts[i].append(array.astype(dtype))
            else:
                self._files[i].write(array.astype(dtype).data)

    @property
    def arrays(self) -> tuple[Any, Any]:
        """Features and labels, once all is drawn."""
        if self._scratch is None:
            return np.concatenate(self._parts[0]), np.concatenate(self._parts[1])
        x, y = (
            np.memmap(self._scratch / name, dtype, "r", shape=shape)
            for name, (shape, dtype) in zip("xy", self._shapes, strict=True)
        )
        return x, y
