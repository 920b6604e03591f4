"""FedJAX: its federated averaging and evaluator, with its two backends for clients.

`jit` has one client after another, a call for every step; `pmap` one client on each core.
"""

import os
import sys

from task import Floats, Outcome, Samples, Task, cores, main, timed

if "pmap" in sys.argv:  # before JAX loads
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={cores()}"

import itertools
from functools import partial
from importlib.metadata import version

import fedjax
import jax
import jax.numpy as jnp
import jax_model
import numpy as np
from fedjax.algorithms import fed_avg

EVAL_BATCH = 512
"""Samples at once when a client is evaluated; the last batch is padded to a power of two."""
BUCKETS = 6


def run(task: Task, variant: str, device: str) -> Outcome:  # noqa: ARG001
    """Run all rounds."""
    fedjax.set_for_each_client_backend(variant)
    task = task.with_scaled_inputs()
    model = _model(task)
    train, test = _clients(task.train), _clients(task.test)
    algorithm = fed_avg.federated_averaging(
        fedjax.model_grad(model),
        client_optimizer=fedjax.optimizers.sgd(task.rate),
        server_optimizer=fedjax.optimizers.sgd(1.0),
        client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(
            batch_size=task.batch, num_epochs=None, num_steps=task.steps
        ),
    )
    evaluator = fedjax.ModelEvaluator(model)
    state = algorithm.init([jnp.array(p) for p in task.start])
    key = jax.random.PRNGKey(0)
    evaluation: Floats | None = None

    def one_round(cohort: np.ndarray) -> None:
        nonlocal state, key, evaluation
        key, *keys = jax.random.split(key, 1 + len(cohort))
        clients = [
            (int(k), train[k], client_key) for k, client_key in zip(cohort, keys, strict=True)
        ]
        state, _ = algorithm.apply(state, clients)
        if task.evaluated:
            splits = (train, test)
            evaluation = np.stack([_evaluate(evaluator, state.params, s) for s in splits])
        jax.block_until_ready(state.params)

    ms = timed(task, one_round)
    return Outcome(ms, [np.array(p) for p in state.params], evaluation)


def _model(task: Task) -> fedjax.Model:
    apply = partial(jax_model.apply, task.model, task.dropout)
    return fedjax.Model(
        init=lambda key: task.start,  # noqa: ARG005
        apply_for_train=lambda params, batch, key: apply(params, batch["x"], key),
        apply_for_eval=lambda params, batch: apply(params, batch["x"]),
        train_loss=lambda batch, logits: fedjax.metrics.unreduced_cross_entropy_loss(
            batch["y"], logits
        ),
        eval_metrics={"loss": fedjax.metrics.CrossEntropyLoss(),
                      "accuracy": fedjax.metrics.Accuracy()},
    )  # fmt: skip


def _clients(samples: Samples) -> list[fedjax.ClientDataset]:
    return [
        fedjax.ClientDataset({"x": samples.x[a:b], "y": samples.y[a:b]})
        for a, b in itertools.pairwise(samples.offsets)
    ]


def _evaluate(
    evaluator: fedjax.ModelEvaluator, params: list[jax.Array], clients: list[fedjax.ClientDataset]
) -> Floats:
    """Compute loss and accuracy of every client, float32[2, K]; fetched once all are queued."""
    batches = [
        (k, client.padded_batch(batch_size=EVAL_BATCH, num_batch_size_buckets=BUCKETS))
        for k, client in enumerate(clients)
    ]
    found = dict(evaluator.evaluate_global_params(params, batches))
    return np.array(
        [jax.device_get([found[k][name] for k in range(len(clients))])
         for name in ("loss", "accuracy")], np.float32,
    )  # fmt: skip


if __name__ == "__main__":
    versions = {name: version(name) for name in ("fedjax", "jax", "numpy")}
    main("fedjax", ("jit", "pmap"), run, versions)
