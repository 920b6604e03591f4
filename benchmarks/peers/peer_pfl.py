"""pfl: its federated averaging on its simulated backend, with PyTorch.

Tensors in memory, no evaluation but the task's. Several processes are started by torchrun, as
pfl documents it.
"""

import os
import runpy
import sys

DISTRIBUTED = "a process each core"
VARIANTS = (DISTRIBUTED, "one thread", "all threads")
if DISTRIBUTED in sys.argv and "LOCAL_RANK" not in os.environ:
    from task import cores

    sys.argv = ["torchrun", "--standalone", "--nproc-per-node", str(cores()), *sys.argv]
    os.environ["OMP_NUM_THREADS"] = "1"
    runpy.run_module("torch.distributed.run", run_name="__main__")
    sys.exit()

import itertools
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.internal.ops import pytorch_ops
from pfl.metrics import Metrics, StringMetricName, Weighted
from pfl.model.pytorch import PyTorchModel
from task import Floats, Outcome, Samples, Task, cores, each_block, main
from torch_model import apply, inputs, to_numpy, to_torch


class Net(torch.nn.Module):
    """The model as pfl expects it: a loss to minimise, and metrics."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task
        self.weights = torch.nn.ParameterList(to_torch(task.start))

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Compute the mean cross-entropy, with dropout."""
        logits = apply(self.task.model, self.task.dropout, list(self.weights), x, training=True)
        return F.cross_entropy(logits, y)

    @torch.inference_mode()
    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Weighted]:
        """Compute loss and accuracy."""
        logits = apply(self.task.model, 0.0, list(self.weights), x, training=False)
        loss = F.cross_entropy(logits, y, reduction="sum").item()
        hits = (logits.argmax(1) == y).sum().item()
        return {"loss": Weighted(loss, len(y)), "accuracy": Weighted(hits, len(y))}


class Drawn(Dataset):
    """A user whose minibatches are drawn with replacement, τ of them, as the task says."""

    def __init__(self, task: Task, raw_data: tuple[torch.Tensor, ...], user_id: Any) -> None:
        super().__init__(raw_data, user_id=user_id)
        self.task = task

    def iter(self, batch_size: int | None) -> Iterator[Any]:
        """Yield minibatches in training; all samples at once in evaluation."""
        if batch_size != self.task.batch:
            yield self.raw_data
            return
        x, y = self.raw_data
        for rows in torch.randint(len(y), (self.task.steps, batch_size)):
            yield x[rows], y[rows]


class Clock(TrainingProcessCallback):
    """Ends every round: evaluates all users if asked for, and notes the time."""

    def __init__(self, splits: list[list[Dataset]]) -> None:
        self.splits, self.times = splits, []
        self.evaluation = torch.zeros(2, 2, len(splits[0])) if splits else None

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:  # noqa: ARG002
        """Start the clock."""
        self.times.append(time.perf_counter())
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, **_: Any
    ) -> tuple[bool, Metrics]:
        """Evaluate users by all processes, each its share."""
        del aggregate_metrics
        if self.evaluation is not None:
            group = pytorch_ops.distributed
            self.evaluation.zero_()
            for split, users in enumerate(self.splits):
                for k in range(group.global_rank, len(users), group.world_size):
                    found = model.evaluate(users[k])
                    for which, name in enumerate(("loss", "accuracy")):
                        self.evaluation[split, which, k] = found[
                            StringMetricName(name)
                        ].overall_value
            (self.evaluation,) = group.all_reduce([self.evaluation])
        self.times.append(time.perf_counter())
        return False, Metrics()


def run(task: Task, variant: str, device: str) -> Outcome | None:
    """Run all rounds."""
    os.environ["PFL_PYTORCH_DEVICE"] = device
    torch.set_num_threads(cores() if variant == "all threads" else 1)
    rank = pytorch_ops.distributed.global_rank
    torch.manual_seed(rank)
    train = _users(task, task.train)
    users = FederatedDataset(
        train.__getitem__, get_user_sampler("minimize_reuse", list(range(task.clients)))
    )
    net = Net(task)
    model = PyTorchModel(
        net,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(net.parameters(), lr=1.0),
    )
    clock = Clock([train, _users(task, task.test)] if task.evaluated else [])
    rounds = task.all_rounds
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds, evaluation_frequency=rounds + 1,
            train_cohort_size=task.cohort, val_cohort_size=0,
        ),
        SimulatedBackend(users, users, postprocessors=[WeightByDatapoints()]),
        model,
        NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=task.rate, local_batch_size=task.batch
        ),
        callbacks=[clock], send_metrics_to_platform=False,
    )  # fmt: skip
    if rank > 0:
        return None
    evaluation: Floats | None = None if clock.evaluation is None else clock.evaluation.numpy()
    return Outcome(each_block(task, clock.times), to_numpy(net.weights), evaluation)


def _users(task: Task, samples: Samples) -> list[Dataset]:
    x, y = inputs(task, task.scale_inputs(samples.x)), torch.tensor(np.array(samples.y)).long()
    return [
        Drawn(task, (x[a:b], y[a:b]), k)
        for k, (a, b) in enumerate(itertools.pairwise(samples.offsets))
    ]


if __name__ == "__main__":
    main("pfl", VARIANTS, run, {name: version(name) for name in ("pfl", "torch", "numpy")})
