"""A client: trains on its data, and participates while the model is better than its solo model."""

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


def trained(model: task.Net, context: Context, steps: int) -> task.Net:
    return task.train(model, data_of(context)["train"], steps)


def measure(part: str) -> tuple:
    return (lambda message, node: task.loss(model_of(message), data_of(node)[part]),
            lambda _, node: task.loss(trained(task.Net(), node, 10), data_of(node)[part]))


app = ClientApp(mods=[appeal_mod(*measure("judging"), test=measure("test"))])


@app.train()
def train(message: Message, context: Context) -> Message:
    model = trained(model_of(message), context, steps=20)
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(data_of(context)["train"].y)}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    data = data_of(context)["test"]
    accuracy = task.accuracy(model_of(message), data)
    metrics = MetricRecord({"num-examples": len(data.y), "accuracy": accuracy})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
