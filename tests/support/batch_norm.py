"""A linear classifier behind a BatchNorm: in JAX, and its FedAvg in plain NumPy.

Written from Ioffe, Szegedy, "Batch Normalization", ICML 2015: training mode normalises by the
minibatch and moves running means and variances by a tenth; evaluation mode normalises by these.
"""

import jax.numpy as jnp
import numpy as np

import maxfl

MOMENTUM, EPS = 0.9, 1e-5


def init(key, features=4, classes=2):  # noqa: ARG001
    w = np.linspace(-0.5, 0.5, features * classes).reshape(features, classes)
    params = {"w": jnp.asarray(w, jnp.float32), "b": jnp.zeros(features)}
    return maxfl.Variables(params, {"mean": jnp.zeros(features), "var": jnp.ones(features)})


def apply(variables, x, key=None):
    (params, state) = variables
    mean, var = (state["mean"], state["var"]) if key is None else (x.mean(0), x.var(0))
    outputs = ((x - mean) / jnp.sqrt(var + EPS) + params["b"]) @ params["w"]
    if key is None:
        return outputs
    blend = lambda old, new: MOMENTUM * old + (1 - MOMENTUM) * new  # noqa: E731
    return outputs, {"mean": blend(state["mean"], mean), "var": blend(state["var"], var)}


MODEL = maxfl.Model(init, apply)


class Variables(dict):
    """w, b, mean and var as float64 arrays."""


def start(features=4, classes=2):
    (params, state) = init(None, features, classes)
    return Variables({k: np.asarray(v, np.float64) for k, v in {**params, **state}.items()})


def outputs(v, x, mean, var):
    return ((x - mean) / np.sqrt(var + EPS) + v["b"]) @ v["w"]


def log_softmax(z):
    z = z - z.max(1, keepdims=True)
    return z - np.log(np.exp(z).sum(1, keepdims=True))


def loss(v, x, y):
    """Mean cross-entropy in evaluation mode."""
    return -log_softmax(outputs(v, x, v["mean"], v["var"]))[np.arange(len(y)), y].mean()


def train(v, batches, rate):
    """Take a step of SGD on each minibatch (x, y), renewing the statistics."""
    for x, y in batches:
        mean, var = x.mean(0), x.var(0)
        h = (x - mean) / np.sqrt(var + EPS) + v["b"]
        error = np.exp(log_softmax(h @ v["w"]))
        error[np.arange(len(y)), y] -= 1
        error /= len(y)
        v = Variables(
            w=v["w"] - rate * h.T @ error,
            b=v["b"] - rate * (error @ v["w"].T).sum(0),
            mean=MOMENTUM * v["mean"] + (1 - MOMENTUM) * mean,
            var=MOMENTUM * v["var"] + (1 - MOMENTUM) * var,
        )
    return v


def server_step(v, trained, server_lr):
    """Step by η_g along the mean of w − w_k; statistics become the clients' mean."""
    new = Variables(v)
    for name in v:
        mean = np.mean([client[name] for client in trained], axis=0)
        rate = 1.0 if name in ("mean", "var") else server_lr
        new[name] = v[name] - rate * (v[name] - mean)
    return new
