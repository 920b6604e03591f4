"""Milliseconds per round of the models of benchmarks/models.py in PyTorch, in several ways.

    python benchmarks/torch_models.py FILE.json [MODEL ...] [--cohorts 10 100] [--device cuda]

FedAvg on made-up samples that are on the device from the start: clients of 60 samples, 20 steps of
20 with plain SGD, and the mean of what the cohort trained. Products are in TF32, as JAX has them
there. A model is a function of a list of parameters, with PyTorch's own layers; the CNN and the
ResNet are also tried with convolutions as products of windows, with channels first, as PyTorch has
them, and last. On a CPU, models are as small as those of benchmarks/models.py there, and one client
after another is also tried with one thread: half of that is what a process for each of two cores
would take at best.

One client after another or all at once by vmap, launched step by step or as one CUDA graph a round;
and all at once with whole steps (minibatch, gradient, update) compiled by torch.compile, as one
CUDA graph. Each model and cohort has a process of its own. All compile at the same time, but one
after another they try products; what they compiled first runs when no other computes. Windows are
measured where they are fastest: compiled. Eight processes on sixteen cores compile for minutes: a
few models at a time are added to those that FILE holds of the same session.
"""

import argparse
import fcntl
import functools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

try:
    import torch
except ImportError:
    sys.exit("PyTorch is missing: pip install torch, into an environment of its own")
from origin import continued, session
from torch._inductor.compile_fx import compile_fx
from torch._inductor.runtime.benchmarking import benchmarker
from torch.func import grad, vmap
from torch_workloads import CLASSES, LENGTH, MODELS, SIZES, VOCABULARY, Params, Workload

CLIENTS, SAMPLES, STEPS, BATCH, RATE = 500, 60, 20, 20, 0.05
SECONDS, TURNS = 1.0, 3
LOCK = Path(tempfile.gettempdir()) / "maxfl-torch-models.lock"


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
        self.step = self.compiled(self.stepped())

    def gradient(self) -> Callable[..., Any]:
        """Return the gradient of one client's loss."""
        return grad(self.work.loss)

    def stepped(self) -> Callable[..., None]:
        """Return the function that takes a step in place, with minibatches of these rows."""
        gradient, x, y = self.gradient(), self.x, self.y

        def step(trained: Params, rows: torch.Tensor) -> None:
            torch._foreach_add_(trained, gradient(trained, x[rows], y[rows]), alpha=-RATE)

        return step

    def compiled(self, function: Callable[..., None]) -> Callable[..., None]:
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
                self.step(trained, rows[step, client])
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
            self.step(trained, rows[step])
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

    def compiled(self, function: Callable[..., None]) -> Callable[..., None]:
        """Return the function compiled, products tuned; convolutions are cuDNN's, tuned by it."""
        return torch.compile(function, backend=by_inductor, dynamic=False)


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


def by_inductor(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Compile as torch.compile does by default, products tuned; the result waits for its turn."""
    with one_process_times_products():
        run = compile_fx(graph, inputs, config_patches={"max_autotune_gemm": True})

    def in_turn(*arguments: torch.Tensor) -> Any:
        wait_for_turn()
        return run(*arguments)

    return in_turn


@contextmanager
def one_process_times_products() -> Iterator[None]:
    """Let processes that compile at the same time try products one after another."""
    alone = benchmarker.benchmark_gpu

    def benchmark_gpu(*arguments: Any, **settings: Any) -> Any:
        with LOCK.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return alone(*arguments, **settings)

    with patch.object(benchmarker, "benchmark_gpu", benchmark_gpu):
        yield


@functools.cache
def wait_for_turn() -> None:
    """Wait until no other process computes; once."""
    print("ready", flush=True)
    sys.stdin.readline()


def timed(loop: Loop) -> float:
    """Return milliseconds of a round, the median of some turns."""

    def seconds(rounds: int) -> float:
        began = time.perf_counter()
        for _ in range(rounds):
            loop.one_round()
        if loop.device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - began) / rounds

    seconds(1)
    rounds = max(1, min(200, int(SECONDS / seconds(1))))
    return 1e3 * statistics.median(seconds(rounds) for _ in range(TURNS))


def measured(model: str, cohort: int, device: str) -> Iterator[dict[str, Any]]:
    """Measure every variant of a model in turn, what takes minutes first, or say why it failed."""

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
    wait_for_turn()
    for variant, kind in VARIANTS[device].items():
        if variant.startswith("one by one") and cohort > 10:
            continue  # ten times what ten clients take
        if " by " in model and not issubclass(kind, Compiled):
            continue  # two to eighteen times what it takes compiled
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
    models = given.models or list(MODELS)
    header = {"torch": torch.__version__, "device": device} | session()
    found = continued(given.file, header, models, "model")
    for row in in_processes(models, given.cohorts, given.device):
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
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # of one that has failed, and said why
            process.stdin.write("\n")
            process.stdin.close()
        yield from (json.loads(line) for line in process.stdout if line.startswith("{"))
        process.wait()


if __name__ == "__main__":
    main()
