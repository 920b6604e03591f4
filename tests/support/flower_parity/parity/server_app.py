"""A server that asks everybody in every round."""

from flwr.serverapp import ServerApp

from maxfl.flower import MaxFL
from maxfl.flower.jax_client import initial_arrays
from parity import setting

app = ServerApp()


@app.main()
def main(grid, context):
    """Train."""
    strategy = MaxFL(
        folder=context.run_config["results"],
        server_lr=setting.TRAINING.server_lr,
        server_schedule=setting.SCHEDULE,
        decline_after=setting.DECLINE_AFTER,
        min_participants=0,  # as the simulation, which has no such rule
        fraction_evaluate=0.0,
        min_available_nodes=setting.CLIENTS,
        min_train_nodes=setting.CLIENTS,
    )
    start = initial_arrays(setting.MODEL, setting.SEED)
    strategy.start(grid, start, num_rounds=setting.TRAINING.rounds, timeout=120)
