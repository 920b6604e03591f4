"""The data: sentences of 11 made-up words, each of which is good or bad; the majority decides."""

import numpy as np

WORDS, LENGTH = 16, 11
SIZES = {"train": 120, "judging": 40, "test": 80}
Examples = list[dict[str, np.ndarray]]
"""What the Trainer takes: `input_ids`, int64[LENGTH], and `labels`, int64 0 or 1, by example."""
Split = dict[str, Examples]
"""A client's data by "train", "judging" and "test"."""


def load(client: int, clients: int) -> Split:
    """Make the data of one of the clients; one in four means the opposite of what others mean."""
    values = np.where(np.random.default_rng(0).permutation(WORDS) < WORDS // 2, 1.0, -1.0)
    rng = np.random.default_rng([1, client])
    contradicts = client % 4 == 3 and clients > 1

    def example() -> dict[str, np.ndarray]:
        words = rng.integers(WORDS, size=LENGTH)
        good = values[words].sum() > 0
        return {"input_ids": words, "labels": np.int64(good != contradicts)}

    return {part: [example() for _ in range(size)] for part, size in SIZES.items()}
