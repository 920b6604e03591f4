"""The server."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from peft import get_peft_model_state_dict

from lorafl import task
from maxfl.flower import MaxFL

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
    start = ArrayRecord(get_peft_model_state_dict(task.build()))
    strategy.start(grid, start, num_rounds=config["rounds"], timeout=config["timeout"])
