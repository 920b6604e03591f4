"""The server."""

from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from maxfl.flower import MaxFL
from sklearnfl import task

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
    start = ArrayRecord({name: Array(array) for name, array in task.arrays(task.init()).items()})
    strategy.start(grid, start, num_rounds=config["rounds"], timeout=config["timeout"])
