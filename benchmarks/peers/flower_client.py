"""The client of Flower's simulation, in a separate file since Ray's workers import it."""

import functools
import os
from pathlib import Path

import numpy as np
import numpy_model
import task as tasks
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from task import Floats, Task

EVALUATION = "evaluation"
WEIGHT = "num-examples"


def client_app(folder: str) -> ClientApp:
    """Return the clients of a task; samples are mapped once in each of Ray's workers."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        task, rng = _loaded(folder)
        client = int(context.node_config["partition-id"])
        params = _params(message)
        numpy_model.train(task, rng, params, client)
        weight = MetricRecord({WEIGHT: int(task.train.sizes[client])})
        content = RecordDict({"arrays": record(params), "metrics": weight})
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        task, _ = _loaded(folder)
        client = int(context.node_config["partition-id"])
        params, evaluation = _params(message), []
        for samples in (task.train, task.test):
            rows = slice(*(int(n) for n in samples.offsets[client : client + 2]))
            found = numpy_model.evaluate(task, params, samples.x[rows], samples.y[rows])
            evaluation += [float(values.mean()) for values in found]
        metrics = MetricRecord({WEIGHT: 1, "client": client, EVALUATION: evaluation})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def record(params: list[Floats]) -> ArrayRecord:
    return ArrayRecord({str(i): Array(p) for i, p in enumerate(params)})


def _params(message: Message) -> list[Floats]:
    return [np.array(a) for a in message.content["arrays"].to_numpy_ndarrays()]


@functools.cache
def _loaded(folder: str) -> tuple[Task, np.random.Generator]:
    return tasks.read(Path(folder)), np.random.default_rng(os.getpid())
