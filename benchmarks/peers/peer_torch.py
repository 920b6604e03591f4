"""A plain PyTorch loop: tensors in memory, SGD by hand, no DataLoader.

Clients one after another, in one process or several, or all clients of a round at once by vmap; on
a GPU also as one CUDA graph a round.
"""

import os

import numpy as np
import pool
import torch
import torch.nn.functional as F  # noqa: N812
from task import Floats, Outcome, Task, cores, main, timed
from torch.func import grad, vmap
from torch_model import Params, apply, inputs, to_numpy, to_torch

CHUNK = {"mlp": 4096, "cnn": 500}
"""Samples at once when a model is evaluated."""


class Data:
    """A task's samples on the device: inputs, labels and each sample's client, a split each."""

    def __init__(self, task: Task, device: str) -> None:
        splits = (task.train, task.test)
        self.x = [inputs(task, task.scale_inputs(s.x)).to(device) for s in splits]
        self.y = [torch.tensor(np.array(s.y), dtype=torch.int64, device=device) for s in splits]
        owners = [np.repeat(np.arange(task.clients), s.sizes) for s in splits]
        self.owner = [torch.tensor(o, device=device) for o in owners]
        self.sizes = [torch.tensor(s.sizes, dtype=torch.float32, device=device) for s in splits]
        self.offsets = torch.tensor(np.array(task.train.offsets[:-1]), device=device)


class Sequential:
    """One client after another."""

    def __init__(self, task: Task, device: str) -> None:
        self.task, self.data = task, Data(task, device)
        self.params = [p.to(device) for p in to_torch(task.start)]

    def train(self, params: Params, client: int) -> Params:
        """Return parameters after τ steps on a client's samples."""
        task, x, y = self.task, self.data.x[0], self.data.y[0]
        start, end = (int(n) for n in task.train.offsets[client : client + 2])
        trained = [p.clone().requires_grad_() for p in params]
        for rows in torch.randint(start, end, (task.steps, task.batch), device=x.device):
            logits = apply(task.model, task.dropout, trained, x[rows], training=True)
            gradient = torch.autograd.grad(F.cross_entropy(logits, y[rows]), trained)
            with torch.no_grad():
                torch._foreach_add_(trained, gradient, alpha=-task.rate)
        return [p.detach() for p in trained]

    def one_round(self, cohort: np.ndarray) -> None:
        """Train a cohort and take the mean by samples."""
        sizes = self.task.train.sizes[cohort]
        total = [torch.zeros_like(p) for p in self.params]
        for client, size in zip(cohort, sizes, strict=True):
            trained = self.train(self.params, int(client))
            torch._foreach_add_(total, trained, alpha=float(size / sizes.sum()))
        self.params = total

    @torch.inference_mode()
    def scores(self, params: Params, split: int, rows: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute loss and correctness of each sample."""
        x, y = self.data.x[split][rows], self.data.y[split][rows]
        losses, hits = [], []
        for part, labels in zip(
            x.split(CHUNK[self.task.model]), y.split(CHUNK[self.task.model]), strict=True
        ):
            logits = apply(self.task.model, 0.0, params, part, training=False)
            losses.append(F.cross_entropy(logits, labels, reduction="none"))
            hits.append((logits.argmax(1) == labels).float())
        return torch.cat(losses), torch.cat(hits)

    def evaluate(self) -> Floats:
        """Evaluate every client, float32[2, 2, K]: one pass over all samples, a sum a client."""
        found = []
        for split in (0, 1):
            owner, sizes = self.data.owner[split], self.data.sizes[split]
            for values in self.scores(self.params, split, slice(None)):
                found.append(torch.zeros_like(sizes).index_add_(0, owner, values) / sizes)
        return torch.stack(found).reshape(2, 2, -1).cpu().numpy()


class Vectorised(Sequential):
    """All clients of a round at once, by vmap over their parameters."""

    def __init__(self, task: Task, device: str) -> None:
        super().__init__(task, device)

        def loss(params: Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(apply(task.model, task.dropout, params, x, training=True), y)

        self.gradient = vmap(grad(loss), randomness="different")

    def train_all(self, cohort: torch.Tensor) -> Params:
        """Return the mean by samples of what all clients of a cohort, int64[m], trained."""
        task, data = self.task, self.data
        trained = [p.expand(len(cohort), *p.shape).contiguous() for p in self.params]
        sizes = data.sizes[0][cohort]
        shape = (task.steps, len(cohort), task.batch)
        share = torch.rand(shape, device=sizes.device) * sizes[:, None]
        # A random number just below 1 can round up to the client's size.
        rows = data.offsets[cohort][:, None] + share.long().minimum(sizes.long()[:, None] - 1)
        for step in range(task.steps):
            gradient = self.gradient(trained, data.x[0][rows[step]], data.y[0][rows[step]])
            torch._foreach_add_(trained, gradient, alpha=-task.rate)
        weights = sizes / sizes.sum()
        return [torch.tensordot(weights, p, 1) for p in trained]

    def one_round(self, cohort: np.ndarray) -> None:
        """Train a cohort."""
        self.params = self.train_all(torch.tensor(cohort, device=self.params[0].device))


class Captured(Vectorised):
    """All clients of a round at once, as one CUDA graph: a round is launched as a whole."""

    def __init__(self, task: Task, device: str) -> None:
        super().__init__(task, device)
        self.cohort = torch.arange(task.cohort, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.train_all(self.cohort)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            torch._foreach_copy_(self.params, self.train_all(self.cohort))

    def one_round(self, cohort: np.ndarray) -> None:
        """Train a cohort."""
        self.cohort.copy_(torch.from_numpy(cohort))
        self.graph.replay()


class Process:
    """One process of several; PyTorch has one thread in each."""

    def __init__(self, task: Task) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(os.getpid())
        self.task, self.loop = task, Sequential(task, "cpu")

    def train(self, params: Floats, client: int) -> Floats:
        """Return parameters after τ steps."""
        layers = to_torch(pool.unflat(params, self.task.start))
        return pool.flat(to_numpy(self.loop.train(layers, int(client))))

    def evaluate(self, params: Floats, split: int, rows: slice) -> tuple[Floats, Floats]:
        """Compute loss and correctness of samples."""
        layers = to_torch(pool.unflat(params, self.task.start))
        losses, hits = self.loop.scores(layers, split, rows)
        return losses.numpy(), hits.numpy()


def run(task: Task, variant: str, device: str) -> Outcome:
    """Run all rounds."""
    if variant == "a process each core":
        # Nothing of PyTorch may run before the processes part, so its threads are set in each.
        processes = pool.Pool(task.with_scaled_inputs(), cores(), Process)
        ms = timed(task, processes.one_round)
        return Outcome(ms, processes.params(), processes.evaluation())
    torch.set_num_threads(1 if variant == "one thread" else cores())
    torch.manual_seed(0)
    kind = {"vmap": Vectorised, "vmap, CUDA graph": Captured}.get(variant, Sequential)
    loop = kind(task, device)
    evaluation: Floats | None = None

    def one_round(cohort: np.ndarray) -> None:
        nonlocal evaluation
        loop.one_round(cohort)
        if task.evaluated:
            evaluation = loop.evaluate()
        elif device != "cpu":
            torch.cuda.synchronize()

    ms = timed(task, one_round)
    more = {} if device == "cpu" else {"gpu": torch.cuda.get_device_name()}
    return Outcome(ms, to_numpy(loop.params), evaluation, more)


if __name__ == "__main__":
    main(
        "torch",
        ("one thread", "all threads", "a process each core", "vmap", "vmap, CUDA graph"),
        run, {"torch": torch.__version__, "numpy": np.__version__},
    )  # fmt: skip
