"""Small federations to train."""

import numpy as np

CLASSES, FEATURES = 3, 4


def make_clients(sizes, seed=0):
    """Clients whose data lean towards different labels: (x, y) of each size."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLASSES, FEATURES))
    clients = []
    for k, size in enumerate(sizes):
        mix = np.full(CLASSES, 0.1)
        mix[k % CLASSES] = 1 - 0.1 * (CLASSES - 1)
        y = rng.choice(CLASSES, size=size, p=mix).astype(np.int32)
        x = (centres[y] + rng.normal(size=(size, FEATURES))).astype(np.float32)
        clients.append((x, y))
    return clients
