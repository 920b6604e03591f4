"""A client: trains on its own data, and takes part while the model is better than its own."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from maxfl.flower import appeal_mod
from torchfl import task


def data_of(context: Context) -> task.Split:
    return task.load(context.node_config["partition-id"], context.node_config["num-partitions"])


def model_of(message: Message) -> task.Net:
    model = task.Net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return model


def loss(message: Message, context: Context) -> float:
    return task.loss(model_of(message), data_of(context)["train"])


def requirement(message: Message, context: Context) -> float:
    return task.loss(task.alone(data_of(context)["train"]), data_of(context)["train"])


app = ClientApp(mods=[appeal_mod(loss, requirement)])


@app.train()
def train(message: Message, context: Context) -> Message:
    data = data_of(context)["train"]
    model = task.train(model_of(message), data, steps=20)
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(data.y)}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    data = data_of(context)["test"]
    accuracy = task.accuracy(model_of(message), data)
    metrics = MetricRecord({"num-examples": len(data.y), "accuracy": accuracy})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
