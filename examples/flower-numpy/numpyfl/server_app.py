"""The server: MaxFL instead of FedAvg."""

from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from maxfl.flower import MaxFL
from numpyfl import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for as many rounds as the app's config says."""
    config = context.run_config
    nodes = config["min-nodes"]
    strategy = MaxFL(
        decline_after=config["decline-after"],
        min_available_nodes=nodes,
        min_train_nodes=nodes,
        min_evaluate_nodes=nodes,
    )
    start = ArrayRecord({name: Array(array) for name, array in task.init().items()})
    strategy.start(grid, start, num_rounds=config["rounds"], timeout=60)
    for number, counts in strategy.counts.items():
        print(f"round {number}: GM-Appeal {counts.gm_appeal:.2f}, {counts}")
