"""A client: trains on its data, and participates while the model is better than its solo model."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from peft import get_peft_model_state_dict, set_peft_model_state_dict
from transformers import PreTrainedModel

from lorafl import data, task
from maxfl.flower import appeal_mod


def data_of(context: Context) -> data.Split:
    return data.load(context.node_config["partition-id"], context.node_config["num-partitions"])


def model_of(message: Message) -> PreTrainedModel:
    model = task.build()
    set_peft_model_state_dict(model, message.content["arrays"].to_torch_state_dict())
    return model


def trained(model: PreTrainedModel, context: Context, steps: int) -> PreTrainedModel:
    return task.train(model, data_of(context)["train"], steps)


def loss(model: PreTrainedModel, context: Context, part: str) -> float:
    return task.evaluate(model, data_of(context)[part])["eval_loss"]


def measure(part: str) -> tuple:
    return (lambda message, node: loss(model_of(message), node, part),
            lambda _, node: loss(trained(task.build(), node, 20), node, part))


app = ClientApp(mods=[appeal_mod(*measure("judging"), test=measure("test"))])


@app.train()
def train(message: Message, context: Context) -> Message:
    model = trained(model_of(message), context, steps=30)
    content = {
        "arrays": ArrayRecord(get_peft_model_state_dict(model)),
        "metrics": MetricRecord({"num-examples": len(data_of(context)["train"])}),
    }
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    examples = data_of(context)["test"]
    accuracy = task.evaluate(model_of(message), examples)["eval_accuracy"]
    metrics = MetricRecord({"num-examples": len(examples), "accuracy": accuracy})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
