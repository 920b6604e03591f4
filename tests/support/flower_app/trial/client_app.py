"""A client that wants w near 1; its node's config says whether, and how, it misbehaves."""

import time

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from maxfl.flower import appeal_mod, secure_mod


def model_of(message):
    return message.content["arrays"]["w"].numpy()


def loss(message, context):
    return float(np.abs(model_of(message) - 1).mean())


def requirement(message, context):
    behaviour = context.node_config.get("behaviour", "")
    if behaviour == "raise":
        raise RuntimeError("no data here")
    return -1.0 if behaviour == "decline" else 2.0


def secure_if_asked(message, context, app):
    secure = context.run_config["secure"]
    return secure_mod(message, context, app) if secure else app(message, context)


app = ClientApp(mods=[secure_if_asked, appeal_mod(loss, requirement)])


@app.train()
def train(message, context):
    """A step towards 1."""
    w = model_of(message)
    behaviour = context.node_config.get("behaviour", "")
    time.sleep({"hang": 600, "slow": 6}.get(behaviour, 0))
    after = np.full_like(w, np.nan) if behaviour == "nan" else w + np.float32(0.5) * (1 - w)
    content = {"arrays": ArrayRecord({"w": Array(after)}),
               "metrics": MetricRecord({"num-examples": 10})}  # fmt: skip
    return Message(RecordDict(content), reply_to=message)
