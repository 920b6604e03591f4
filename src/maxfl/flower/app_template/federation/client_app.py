"""A client: trains on its own data, and takes part while the model is better than its own."""

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from federation import task
from maxfl.flower import appeal_mod


def data_of(context: Context) -> task.Split:
    """This node's own data: `--node-config "partition-id=3 num-partitions=4"` says which."""
    return task.load(context.node_config["partition-id"], context.node_config["num-partitions"])


def model_of(message: Message) -> task.Model:
    """The model that came in."""
    return {name: array.numpy() for name, array in message.content["arrays"].items()}


def trained(model: task.Model, context: Context, steps: int) -> task.Model:
    """A model after some steps on this node's training data."""
    return task.train(model, data_of(context)["train"], steps)


def measure(part: str) -> tuple:
    """The loss of a model that comes in, and that of one trained alone, which it must beat."""
    return (lambda message, own: task.loss(model_of(message), data_of(own)[part]),
            lambda _, own: task.loss(trained(task.init(), own, 10), data_of(own)[part]))


app = ClientApp(mods=[appeal_mod(*measure("train"), held_out=measure("test"))])


@app.train()
def train(message: Message, context: Context) -> Message:
    """A round of training."""
    model = trained(model_of(message), context, steps=20)
    content = {
        "arrays": ArrayRecord({name: Array(array) for name, array in model.items()}),
        "metrics": MetricRecord({"num-examples": len(data_of(context)["train"].y)}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """How the model does on data kept from training."""
    data = data_of(context)["test"]
    accuracy = task.accuracy(model_of(message), data)
    metrics = MetricRecord({"num-examples": len(data.y), "accuracy": accuracy})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
