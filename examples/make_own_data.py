"""Write a small file of made-up clients for own-data.toml: two groups that disagree."""

from pathlib import Path

import numpy as np

rng = np.random.default_rng(0)
client = np.repeat(np.arange(25), rng.integers(20, 80, 25))
x = rng.normal(size=(len(client), 8)).astype(np.float32)
y = (x[:, 0] + x[:, 1] > 0).astype(int)
y = np.where(client % 5 == 0, 1 - y, y)  # every fifth client sees it the other way round
path = Path("runs/own-data.npz")
path.parent.mkdir(exist_ok=True)
np.savez(path, x=x, y=y, client=client)
print(f"{path}: {len(y)} samples of {client.max() + 1} clients")
