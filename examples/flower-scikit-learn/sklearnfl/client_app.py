"""A client: trains on its data, and participates while the model is better than its solo model."""

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.linear_model import SGDClassifier

from maxfl.flower import appeal_mod
from sklearnfl import task


def data_of(context: Context) -> task.Split:
    return task.load(context.node_config["partition-id"], context.node_config["num-partitions"])


def model_of(message: Message) -> SGDClassifier:
    arrays = message.content["arrays"]
    return task.with_arrays(task.init(), arrays["coef"].numpy(), arrays["intercept"].numpy())


def trained(model: SGDClassifier, context: Context, epochs: int) -> SGDClassifier:
    return task.train(model, data_of(context)["train"], epochs)


def measure(part: str) -> tuple:
    return (lambda message, node: task.loss(model_of(message), data_of(node)[part]),
            lambda _, node: task.loss(trained(task.init(), node, 2), data_of(node)[part]))


app = ClientApp(mods=[appeal_mod(*measure("judging"), test=measure("test"))])


@app.train()
def train(message: Message, context: Context) -> Message:
    model = trained(model_of(message), context, epochs=2)
    arrays = {name: Array(array) for name, array in task.arrays(model).items()}
    metrics = MetricRecord({"num-examples": len(data_of(context)["train"].y)})
    return Message(
        RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message
    )


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    data = data_of(context)["test"]
    accuracy = task.accuracy(model_of(message), data)
    metrics = MetricRecord({"num-examples": len(data.y), "accuracy": accuracy})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
