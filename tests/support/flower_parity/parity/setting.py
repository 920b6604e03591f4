"""What simulation and federation have in common."""

import numpy as np

import maxfl

CLIENTS, SEED, DECLINE_AFTER = 3, 3, 3
REQUIREMENT = maxfl.solo(steps=5)
SCHEDULE = maxfl.schedules.exponential(end=0.18)
TRAINING = maxfl.Training(
    rounds=5, cohort=CLIENTS, local_steps=3, batch_size=4, server_lr=0.5, local_lr=0.2
)
MODEL = maxfl.mlp(4, (5,), 3)


def federation() -> maxfl.Federation:
    """Three clients, one of which contradicts the others."""
    rng = np.random.default_rng(0)

    def client(k: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.normal(size=(size, 4)).astype(np.float32)
        y = (x[:, 0] > 0) + (x[:, 1] > 0.5)
        return x, (2 - y if k == 2 else y).astype(np.int32)

    train, test = ([client(k, n) for k, n in enumerate((20, 30, 25))] for _ in range(2))
    return maxfl.Federation.from_clients(train, test)
