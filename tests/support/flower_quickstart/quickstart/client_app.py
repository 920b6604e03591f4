"""A client: trains and evaluates."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.metrics import log_loss

from quickstart.task import create_model, fit, get_params, load_data, set_params

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    model = create_model(context.run_config["local-iterations"])
    set_params(model, msg.content["arrays"].to_numpy_ndarrays())
    x, _, y, _ = load_data(
        context.node_config["partition-id"], context.node_config["num-partitions"]
    )
    fit(model, x, y)
    metrics = MetricRecord({"num-examples": len(x)})
    content = RecordDict({"arrays": ArrayRecord(get_params(model)), "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    model = create_model(context.run_config["local-iterations"])
    set_params(model, msg.content["arrays"].to_numpy_ndarrays())
    _, x, _, y = load_data(
        context.node_config["partition-id"], context.node_config["num-partitions"]
    )
    metrics = {
        "num-examples": len(x),
        "test-logloss": log_loss(y, model.predict_proba(x), labels=[0, 1, 2]),
        "accuracy": model.score(x, y),
    }
    return Message(content=RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
