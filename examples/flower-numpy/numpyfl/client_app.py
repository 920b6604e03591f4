"""A client: trains on its own data, and takes part while the model is better than its own."""

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from maxfl.flower import appeal_mod
from numpyfl import task


def model_of(message: Message) -> task.Model:
    return {name: array.numpy() for name, array in message.content["arrays"].items()}


def loss(message: Message, context: Context) -> float:
    data, _ = task.load(context.node_config["partition-id"])
    return task.loss(model_of(message), data)


def requirement(message: Message, context: Context) -> float:
    data, _ = task.load(context.node_config["partition-id"])
    return task.loss(task.train(task.init(), data, steps=3), data)


app = ClientApp(mods=[appeal_mod(loss, requirement)])


@app.train()
def train(message: Message, context: Context) -> Message:
    data, _ = task.load(context.node_config["partition-id"])
    model = task.train(model_of(message), data, steps=10)
    content = {
        "arrays": ArrayRecord({name: Array(array) for name, array in model.items()}),
        "metrics": MetricRecord({"num-examples": len(data.y)}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    _, data = task.load(context.node_config["partition-id"])
    accuracy = task.accuracy(model_of(message), data)
    metrics = MetricRecord({"num-examples": len(data.y), "accuracy": accuracy})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
