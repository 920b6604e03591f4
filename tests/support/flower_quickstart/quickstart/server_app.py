"""The server."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart.task import create_model, get_params

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context):
    rounds = context.run_config["num-server-rounds"]
    arrays = ArrayRecord(get_params(create_model(context.run_config["local-iterations"])))
    strategy = FedAvg(fraction_train=1.0, fraction_evaluate=1.0)
    strategy.start(grid=grid, initial_arrays=arrays, num_rounds=rounds)
