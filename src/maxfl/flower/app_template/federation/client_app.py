"""A client: trains on its data, and participates while the model is better than its solo model."""

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from federation import task
from maxfl.flower import RequirementStore, appeal_mod


def data_of(context: Context) -> task.Split:
    """Load this node's data: `--node-config "partition-id=3 num-partitions=4"` says which."""
    return task.load(context.node_config["partition-id"], context.node_config["num-partitions"])


def model_of(message: Message) -> task.Model:
    """Return the model that came in."""
    return {name: array.numpy() for name, array in message.content["arrays"].items()}


def trained(model: task.Model, context: Context, steps: int) -> task.Model:
    """Train a model for some steps on this node's training data."""
    return task.train(model, data_of(context)["train"], steps)


def measure(part: str) -> tuple:  # the loss of a model that comes in, and what it must beat
    return (lambda message, node: task.loss(model_of(message), data_of(node)[part]),
            lambda _, node: task.loss(trained(task.init(), node, 10), data_of(node)[part]))


keep = RequirementStore(lambda node: (data_of(node), task.init(), "10 steps"))
app = ClientApp(mods=[appeal_mod(*measure("judging"), test=measure("test"), keep=keep)])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train for a round."""
    model = trained(model_of(message), context, steps=20)
    content = {
        "arrays": ArrayRecord({name: Array(array) for name, array in model.items()}),
        "metrics": MetricRecord({"num-examples": len(data_of(context)["train"].y)}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Measure the model on test data, by which nobody trains or judges."""
    data = data_of(context)["test"]
    accuracy = task.accuracy(model_of(message), data)
    metrics = MetricRecord({"num-examples": len(data.y), "accuracy": accuracy})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
