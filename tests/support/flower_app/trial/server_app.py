"""A server that takes a few rounds with whoever is there."""

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp

from maxfl.flower import MaxFL, Privacy

app = ServerApp()


@app.main()
def main(grid, context):
    """Train."""
    config = context.run_config
    private = Privacy(clip=1.0, noise_multiplier=0.05, secure=True) if config["secure"] else None
    strategy = MaxFL(
        folder=config["results"],
        decline_after=1,
        scale=1.0 if config["secure"] else None,
        privacy=private,
        fraction_evaluate=0.0,
        min_available_nodes=config["nodes"],
        min_train_nodes=2,
    )
    start = ArrayRecord({"w": Array(np.zeros(3, np.float32))})
    strategy.start(grid, start, num_rounds=config["rounds"], timeout=config["timeout"])
