"""The server."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from jaxfl import task
from maxfl.flower import MaxFL
from maxfl.flower.jax_client import initial_arrays

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for as many rounds as the app's config says."""
    config = context.run_config
    nodes = config["nodes"]
    strategy = MaxFL(
        folder=config["results"], resume=config["resume"], collect_losses=config["collect_losses"],
        decline_after=config["rounds"] * 2 // 3,
        min_available_nodes=nodes,
        min_train_nodes=nodes,
        min_evaluate_nodes=nodes,
    )
    start = initial_arrays(task.MODEL, task.SEED)
    strategy.start(grid, start, num_rounds=config["rounds"], timeout=config["timeout"])
