"""Milliseconds per round of the models of benchmarks/models.py in PyTorch, each as fast as it gets.

    python benchmarks/torch_models.py FILE.json [MODEL ...] [--cohorts 10 100] [--device cuda]

FedAvg on made-up samples that are on the device from the start: clients of 60 samples, 20 steps of
20 with plain SGD, and the mean of what the cohort trained. Products are in TF32, as JAX has them
there. A model is a function of a list of parameters, with PyTorch's own layers; the CNN is also
tried with convolutions as products of windows, as they are in maxfl. On a CPU, models are as small
as those of benchmarks/models.py there, and one client after another is also tried with one thread:
half of that is what a process for each of two cores would take at best.

One client after another or all at once by vmap, launched step by step or as one CUDA graph a round;
and all at once compiled by torch.compile, as one CUDA graph. Each model and cohort has a process of
its own: all compile at the same time, and are measured one after another.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch.func import grad, vmap

Params = list[torch.Tensor]
Loss = Callable[[Params, torch.Tensor, torch.Tensor], torch.Tensor]

CLIENTS, SAMPLES, STEPS, BATCH, RATE = 500, 60, 20, 20, 0.05
CLASSES, VOCABULARY, LENGTH = 62, 80, 80
EMBEDDING, DEPTH, HEADS, DROPPED = 8, 2, 4, 0.1
SECONDS, TURNS = 1.0, 3


class Workload(NamedTuple):
    """A model: its start, its loss on a minibatch, and the shape of a sample."""

    start: Params
    loss: Loss
    shape: tuple[int, ...]


class Sizes(NamedTuple):
    """What is smaller on a CPU: a stage's blocks of the resnet, units of the LSTM, the width."""

    blocks: int
    units: tuple[int, ...]
    width: int


SIZES = {"cuda": Sizes(3, (256, 256), 128), "cpu": Sizes(1, (64,), 64)}


def mlp() -> Workload:
    """Return the MLP of 64 and 30 units, with dropout after the first."""
    start = dense_start(784, 64, 30, CLASSES)

    def loss(p: Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = F.dropout(F.relu(F.linear(x, p[0], p[1])), 0.5)
        return F.cross_entropy(F.linear(F.relu(F.linear(h, p[2], p[3])), p[4], p[5]), y)

    return Workload(start, loss, (784,))


def cnn(convolve: Callable[..., torch.Tensor] = F.conv2d) -> Workload:
    """Return the CNN of the peers: 3 × 3 convolutions of 32 and 64 channels, and 128 units."""
    start = [*conv_start(1, 32), torch.zeros(32), *conv_start(32, 64), torch.zeros(64)]
    start += dense_start(1600, 128, CLASSES)

    def loss(p: Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = F.max_pool2d(F.relu(convolve(x, p[0], p[1])), 2)
        h = F.max_pool2d(F.relu(convolve(h, p[2], p[3])), 2)
        h = F.dropout(F.relu(F.linear(h.flatten(1), p[4], p[5])), 0.5)
        return F.cross_entropy(F.linear(h, p[6], p[7]), y)

    return Workload(start, loss, (1, 28, 28))


def by_windows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Convolve by one product of all windows."""
    n, _, height, width = x.shape
    outputs, _, rows, columns = weight.shape
    windows = F.unfold(x, (rows, columns))
    found = torch.einsum("nkp,ok->nop", windows, weight.flatten(1)) + bias[:, None]
    return found.reshape(n, outputs, height - rows + 1, width - columns + 1)


def resnet(blocks: int) -> Workload:
    """Return a ResNet with group normalisation in 8 groups, for images of 32 × 32."""
    planes = [16 * 2**stage for stage in range(3) for _ in range(blocks)]
    start = unit_start(3, 16)
    for before, after in zip([16, *planes], planes, strict=False):
        start += unit_start(before, after) + unit_start(after, after)
    start += dense_start(64, CLASSES)

    def unit(p: Params, h: torch.Tensor, stride: int = 1) -> torch.Tensor:
        return F.group_norm(F.conv2d(h, p[0], stride=stride, padding=1), 8, p[1], p[2])

    def loss(p: Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h, rest = F.relu(unit(p[:3], x)), p[3:]
        for _ in planes:
            block, rest = rest[:6], rest[6:]
            wider = block[0].shape[0] - h.shape[1]
            stride = 2 if wider else 1
            inner = F.relu(unit(block[:3], h, stride))
            shortcut = F.pad(h[:, :, ::stride, ::stride], (0, 0, 0, 0, 0, wider))
            h = F.relu(unit(block[3:], inner) + shortcut)
        return F.cross_entropy(F.linear(h.mean((2, 3)), *rest), y)

    return Workload(start, loss, (3, 32, 32))


def lstm(units: tuple[int, ...]) -> Workload:
    """Return LSTM layers for 80 characters; PyTorch's have two biases."""
    layers = [
        torch.nn.LSTM(n, m, batch_first=True)
        for n, m in zip([EMBEDDING, *units], units, strict=False)
    ]
    start = [torch.randn(VOCABULARY, EMBEDDING) / EMBEDDING**0.5]
    start += [p.detach() for layer in layers for p in layer.parameters()]
    start += dense_start(units[-1], VOCABULARY)

    def loss(p: Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h, rest = F.embedding(x, p[0]), p[1:]
        for m in units:
            state = torch.zeros(1, len(x), m, device=h.device)
            h = torch.lstm(h, (state, state), rest[:4], True, 1, 0.0, True, False, True)[0]
            rest = rest[4:]
        return F.cross_entropy(F.linear(h, *rest).flatten(0, 1), y.flatten())

    return Workload(start, loss, (LENGTH,))


def transformer(width: int) -> Workload:
    """Return the causal transformer of two layers, for 80 characters."""
    start = [torch.randn(VOCABULARY, width) / width**0.5, torch.randn(LENGTH, width) / width**0.5]
    for _ in range(DEPTH):
        start += [torch.ones(width), torch.zeros(width), *dense_start(width, 3 * width)]
        start += [*dense_start(width, width), torch.ones(width), torch.zeros(width)]
        start += [*dense_start(width, 4 * width), *dense_start(4 * width, width)]
    start += [torch.ones(width), torch.zeros(width), *dense_start(width, VOCABULARY)]

    def attend(h: torch.Tensor, p: Params) -> torch.Tensor:
        n = len(h)
        together = F.linear(h, p[0], p[1]).reshape(n, LENGTH, 3, HEADS, -1)
        queries, keys, values = together.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return F.linear(mixed.transpose(1, 2).reshape(n, LENGTH, width), p[2], p[3])

    def loss(p: Params, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h, rest = F.dropout(F.embedding(x, p[0]) + p[1], DROPPED), p[2:]
        for _ in range(DEPTH):
            q, rest = rest[:12], rest[12:]
            h = h + F.dropout(attend(F.layer_norm(h, (width,), q[0], q[1]), q[2:6]), DROPPED)
            units = F.gelu(
                F.linear(F.layer_norm(h, (width,), q[6], q[7]), q[8], q[9]), approximate="tanh"
            )
            h = h + F.dropout(F.linear(units, q[10], q[11]), DROPPED)
        logits = F.linear(F.layer_norm(h, (width,), rest[0], rest[1]), rest[2], rest[3])
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())

    return Workload(start, loss, (LENGTH,))


MODELS: dict[str, Callable[[Sizes], Workload]] = {
    "mlp": lambda _: mlp(), "cnn": lambda _: cnn(), "cnn by windows": lambda _: cnn(by_windows),
    "resnet": lambda sizes: resnet(sizes.blocks), "lstm": lambda sizes: lstm(sizes.units),
    "transformer": lambda sizes: transformer(sizes.width),
}  # fmt: skip


def dense_start(*widths: int) -> Params:
    """Return weights and biases of dense layers."""
    pairs = pairwise(widths)
    return [p for n, m in pairs for p in (torch.randn(m, n) / n**0.5, torch.zeros(m))]


def conv_start(inputs: int, outputs: int) -> Params:
    """Return the weight of a 3 × 3 convolution."""
    return [torch.randn(outputs, inputs, 3, 3) / (9 * inputs) ** 0.5]


def unit_start(inputs: int, outputs: int) -> Params:
    """Return a convolution without bias and the scaling of its normalisation."""
    return [*conv_start(inputs, outputs), torch.ones(outputs), torch.zeros(outputs)]


class Loop:
    """Rounds of a workload."""

    def __init__(self, work: Workload, cohort: int, device: str) -> None:
        self.work, self.device = work, device
        self.params = [p.to(device) for p in work.start]
        total, labels = CLIENTS * SAMPLES, (LENGTH,) if work.shape == (LENGTH,) else ()
        is_text = bool(labels)
        self.x = (
            torch.randint(1, VOCABULARY, (total, *work.shape), device=device)
            if is_text
            else torch.rand(total, *work.shape, device=device)
        )
        most = VOCABULARY if is_text else CLASSES
        self.y = torch.randint(1, most, (total, *labels), device=device)
        self.cohort = torch.arange(cohort, device=device)
        self.step = self.compiled(self.gradient())

    def gradient(self) -> Callable[..., Any]:
        """Return the gradient of one client's loss."""
        return grad(self.work.loss)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as it is."""
        return function

    def rows(self) -> torch.Tensor:
        """Draw the rows of a round's minibatches, int64[steps, cohort, batch]."""
        shape = (STEPS, len(self.cohort), BATCH)
        return self.cohort[:, None] * SAMPLES + torch.randint(SAMPLES, shape, device=self.device)

    def train(self) -> Params:
        """Return the mean of what the cohort trained, one client after another."""
        rows, total = self.rows(), [torch.zeros_like(p) for p in self.params]
        for client in range(len(self.cohort)):
            trained = [p.clone() for p in self.params]
            for step in range(STEPS):
                mine = rows[step, client]
                torch._foreach_add_(
                    trained, self.step(trained, self.x[mine], self.y[mine]), alpha=-RATE
                )
            torch._foreach_add_(total, trained, alpha=1 / len(self.cohort))
        return total

    def one_round(self) -> None:
        """Run a round."""
        self.params = self.train()


class Vectorised(Loop):
    """All clients at once."""

    def gradient(self) -> Callable[..., Any]:
        """Return the gradients of all clients' losses."""
        return vmap(grad(self.work.loss), randomness="different")

    def train(self) -> Params:
        """Return the mean of what the cohort trained."""
        rows = self.rows()
        trained = [p.expand(len(self.cohort), *p.shape).contiguous() for p in self.params]
        for step in range(STEPS):
            batch = self.x[rows[step]], self.y[rows[step]]
            torch._foreach_add_(trained, self.step(trained, *batch), alpha=-RATE)
        return [p.mean(0) for p in trained]


class Captured(Loop):
    """A round as one CUDA graph."""

    def __init__(self, work: Workload, cohort: int, device: str) -> None:
        super().__init__(work, cohort, device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.train()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            torch._foreach_copy_(self.params, self.train())

    def one_round(self) -> None:
        """Launch the graph."""
        self.graph.replay()


class Compiled(Loop):
    """A step compiled by torch.compile."""

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function compiled, products tuned; convolutions are cuDNN's, tuned by it."""
        return torch.compile(function, options={"max_autotune_gemm": True}, dynamic=False)


class CapturedVectorised(Captured, Vectorised):
    """All clients at once, a round as one CUDA graph."""


class CompiledVectorised(Captured, Compiled, Vectorised):
    """All clients at once, a step compiled, a round as one CUDA graph."""


class OneThread(Loop):
    """One client after another, on one core."""

    def one_round(self) -> None:
        """Run a round."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        super().one_round()
        torch.set_num_threads(threads)


VARIANTS: dict[str, dict[str, type[Loop]]] = {
    "cuda": {
        "one by one": Loop, "one by one, CUDA graph": Captured, "vmap": Vectorised,
        "vmap, CUDA graph": CapturedVectorised,
        "vmap, torch.compile, CUDA graph": CompiledVectorised,
    },
    "cpu": {"one by one": Loop, "one by one, one thread": OneThread, "vmap": Vectorised},
}  # fmt: skip


def timed(loop: Loop) -> float:
    """Return milliseconds of a round, the median of some turns."""

    def seconds(rounds: int) -> float:
        began = time.perf_counter()
        for _ in range(rounds):
            loop.one_round()
        if loop.device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - began) / rounds

    rounds = max(1, min(200, int(SECONDS / max(seconds(1), seconds(1)))))
    return 1e3 * statistics.median(seconds(rounds) for _ in range(TURNS))


def measured(model: str, cohort: int, device: str) -> Iterator[dict[str, Any]]:
    """Measure every variant of a model, once told to; one that fails has its reason.

    What takes minutes, torch.compile, comes first: all models and cohorts compile at the same time,
    and are measured one after another.
    """

    def made(kind: type[Loop]) -> Loop | str:
        try:
            return kind(MODELS[model](SIZES[device]), cohort, device)
        except Exception as error:
            return reason(error)

    ahead = {
        variant: made(kind)
        for variant, kind in VARIANTS[device].items()
        if issubclass(kind, Compiled)
    }
    print("ready", flush=True)
    sys.stdin.readline()
    for variant, kind in VARIANTS[device].items():
        if cohort > 10 and variant.startswith("one by one"):
            continue  # ten times what ten clients take
        row: dict[str, Any] = {"model": model, "cohort": cohort, "variant": variant}
        loop = ahead.get(variant) or made(kind)
        yield row | (timed_or_failed(loop) if isinstance(loop, Loop) else {"failed": loop})


def timed_or_failed(loop: Loop) -> dict[str, float | str]:
    """Return milliseconds of a round, or why there are none."""
    try:
        return {"ms_a_round": timed(loop)}
    except Exception as error:
        return {"failed": reason(error)}


def reason(error: Exception) -> str:
    """Return the first line of an error."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], default=[])
    parser.add_argument("--cohorts", nargs="+", type=int, default=[10, 100])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--one", action="store_true", help="one model and cohort, when told to")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    if given.one:
        for row in measured(given.models[0], given.cohorts[0], given.device):
            print(json.dumps(row), flush=True)
        return
    device = torch.cuda.get_device_name() if given.device == "cuda" else "cpu"
    found: dict[str, Any] = {"torch": torch.__version__, "device": device, "rounds": []}
    for row in in_processes(given.models or list(MODELS), given.cohorts, given.device):
        print(row, flush=True)
        found["rounds"].append(row)
        given.file.write_text(json.dumps(found, indent=1) + "\n")


def in_processes(models: list[str], cohorts: list[int], device: str) -> Iterator[dict[str, Any]]:
    """Start a process for every model and cohort, and let them measure when all are ready."""
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                __file__,
                "-",
                model,
                "--one",
                "--device",
                device,
                "--cohorts",
                str(cohort),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for model in models
        for cohort in cohorts
    ]
    for process in processes:
        assert process.stdout is not None
        for line in process.stdout:  # until it is ready, or has ended
            if line == "ready\n":
                break
    for process in processes:
        rows = process.communicate("\n")[0].splitlines()
        yield from (json.loads(row) for row in rows if row.startswith("{"))


if __name__ == "__main__":
    main()
