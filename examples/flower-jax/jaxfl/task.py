"""The model, the data and how clients train: as for a simulation, ``maxfl.simulate``."""

import maxfl
from maxfl.flower.example_data import fashion_mnist_share

CLIENTS, SEED = 4, 0
MODEL = maxfl.mlp(784, (64,), 10)
TRAINING = maxfl.Training(cohort=CLIENTS, local_steps=20, batch_size=32, local_lr=0.05)
REQUIREMENT = maxfl.solo(steps=10)


def federation() -> maxfl.Federation:
    """200 Fashion-MNIST images a client; a node reads its own row, which `partition-id` names."""
    shares = [fashion_mnist_share(client, CLIENTS) for client in range(CLIENTS)]
    train, judging, test = ([(share[part].x, share[part].y) for share in shares]
                            for part in ("train", "judging", "test"))  # fmt: skip
    return maxfl.Federation.from_clients(train, test, judging=judging)
