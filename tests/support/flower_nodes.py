"""Clients of Flower in this process: real messages, apps and strategies, without a network."""

import copy

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from maxfl.flower import appeal_mod

START = {"w": np.array([1.0, 2.0, 4.0], np.float32), "b": np.array([[0.5]], np.float32)}


def arrays(values):
    return ArrayRecord({name: Array(np.asarray(v)) for name, v in values.items()})


class Nodes:
    """A grid of clients in this process: only what strategies ask of it."""

    def __init__(self, *apps):
        self.apps = dict(enumerate(apps, 11))
        self.contexts = {
            node: Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={})
            for node in self.apps
        }

    def get_node_ids(self):
        """Everybody."""
        return list(self.apps)

    def send_and_receive(self, messages, timeout=None):  # noqa: ARG002
        """One after another; an app that is None never answers."""
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            message.content = copy.deepcopy(message.content)  # a network would, too
            if self.apps[node] is not None:
                replies.append(self.apps[node](message, self.contexts[node]))
        return replies


def make_app(loss, requirement, change=0.5, examples=1.0, mods=(), test=None, keep=None, **forged):
    """A client whose model is the incoming one minus ``change``; ``forged`` replace its metrics."""
    loss_fn = loss if callable(loss) else lambda *_: loss
    app = ClientApp(mods=[*mods, appeal_mod(loss_fn, requirement, test=test, keep=keep)])

    @app.train()
    def train(message, context):  # noqa: ARG001
        model = {n: a.numpy() - np.float32(change) for n, a in message.content["arrays"].items()}
        metrics = MetricRecord({"num-examples": examples})
        if "maxfl-correction" in message.content:
            metrics["maxfl-distance"] = 1.0
        return Message(RecordDict({"arrays": arrays(model), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):  # noqa: ARG001
        metrics = MetricRecord({"num-examples": examples, "accuracy": 0.5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    def answer(message, context):
        reply = app(message, context)
        for name, value in forged.items():
            reply.content["metrics"][name.replace("_", "-")] = value
        return reply

    return answer


def train(strategy, nodes, rounds=1, start=START):
    """Some rounds of training: the model after each, and the metrics."""
    model, results = arrays(start), []
    strategy.num_rounds = rounds  # as start() would
    for r in range(1, rounds + 1):
        messages = strategy.configure_train(r, model, ConfigRecord(), nodes)
        new, metrics = strategy.aggregate_train(r, nodes.send_and_receive(messages))
        model = model if new is None else new
        strategy.configure_evaluate(r, model, ConfigRecord(), nodes)
        strategy.aggregate_evaluate(r, [])  # Flower's loop does so, also without evaluation
        results.append(({n: a.numpy() for n, a in model.items()}, metrics))
    return results
