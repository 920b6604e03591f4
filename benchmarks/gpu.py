"""Milliseconds per round and configuration on one GPU, for 1, 64 and 1000 at once, beside PyTorch.

    python benchmarks/gpu.py [FILE.json]

The workload `mlp` of the peers: the Fashion-MNIST MLP, 100 clients × 300 samples, 5 a round, 30
steps of 32. Also memory, as predicted and as used; precisions with a wide model; and what a
precision does to GM-Appeal: annealed MaxFL on 60 clients with 200 real images each, in five
clusters. PyTorch is the peers' loop, where it is installed beside JAX. Writes
benchmarks/results/gpu.json or the file given, which docs/performance.md quotes.
"""

import json
import platform
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np

import maxfl
from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist_12k
from maxfl.data.partition import clusters
from maxfl.engine.resources import parallel_configurations

sys.path.append(str(Path(__file__).parent / "peers"))
from peer_maxfl import federation
from task import Task, write
from workloads import make

PEERS = Path(__file__).parent / "peers"
FILE = Path(__file__).parent / "results/gpu.json"
SIZES = (1, 64, 1000)
WIDE, WIDE_SIZES = (1024, 1024), (1, 32)
PRECISIONS = ("platform", "float32", "bfloat16")
ROUNDS, TURNS, SEEDS = 100, 3, 32
MEASURED = (
    ("platform", "FedAvg"), ("platform", "MaxFL"), ("float32", "FedAvg"), ("bfloat16", "FedAvg"),
)  # fmt: skip
METHODS = {"FedAvg": maxfl.fedavg(), "MaxFL": maxfl.maxfl()}
TORCH = ("one thread", "vmap", "vmap, CUDA graph")


def main() -> None:
    """Measure, print and write."""
    task = make("mlp")
    fed, clustered, mlp = federation(task), clustered_clients(), maxfl.mlp(784, (64, 30), 10)
    found: dict[str, Any] = {
        "device": jax.devices()[0].device_kind, "machine": platform.machine(),
        "jax": jax.__version__, "torch": [], "rounds": [], "wide": [], "appeal": [],
    }  # fmt: skip
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE

    def write_row(table: str, row: dict[str, Any]) -> None:
        print(row, flush=True)
        found[table].append(row)
        file.write_text(json.dumps(found, indent=1) + "\n")

    for row in torch_rounds(task):
        write_row("torch", row)
    for precision, method in MEASURED:
        for size in SIZES:
            case = {"precision": precision, "method": method, "configurations": size}
            model = maxfl.with_precision(mlp, precision)  # type: ignore[arg-type]
            write_row("rounds", case | timed(fed, task, model, METHODS[method], size, ROUNDS))
    for precision in PRECISIONS:
        for size in WIDE_SIZES:
            case = {"precision": precision, "hidden": WIDE, "configurations": size}
            model = maxfl.with_precision(maxfl.mlp(784, WIDE, 10), precision)  # type: ignore[arg-type]
            write_row("wide", case | timed(fed, task, model, METHODS["FedAvg"], size, 20))
    for precision in PRECISIONS:
        model = maxfl.with_precision(mlp, precision)  # type: ignore[arg-type]
        write_row("appeal", {"precision": precision} | appeal(clustered, model))


def torch_rounds(task: Task) -> list[dict[str, Any]]:
    """Run the peers' loop on the GPU, in every variant."""
    if find_spec("torch") is None:
        return [{"failed": "PyTorch is not installed here"}]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        write(task, Path(folder))
        for variant in TORCH:
            script = [sys.executable, str(PEERS / "peer_torch.py"), folder, "--device", "cuda"]
            options = ["--variant", variant, "--out", f"{folder}/out.npz"]
            done = subprocess.run([*script, *options], capture_output=True, text=True, check=False)
            if done.returncode:
                found.append({"variant": variant, "failed": done.stderr.splitlines()[-1:]})
                continue
            printed = json.loads(done.stdout.splitlines()[-1])
            found.append({"variant": variant, "ms_a_round": float(np.median(printed["ms"]))})
    return found


def timed(
    fed: Any, task: Task, model: Any, algorithm: Any, size: int, rounds: int
) -> dict[str, Any]:
    """Measure time and memory of a block of rounds of some configurations, and its compilation."""
    # Configurations differ in their rate, as in a search.
    rates = np.geomspace(0.01, 0.1, size)
    training = maxfl.Training(
        2 * rounds, task.cohort, task.steps, task.batch, rates, 1.0, rounds, rounds
    )
    simulation = maxfl.Simulation(
        fed,
        model,
        algorithm,
        training,
        requirement=maxfl.fixed(0.5, judge="training"),
        seed=np.arange(size),
    )
    prepared, state = simulation.prepare(), simulation.start()

    def block() -> float:
        began = time.perf_counter()
        next(simulation.blocks(prepared, state, done=1))
        return time.perf_counter() - began

    first, seconds = block(), [block() for _ in range(TURNS)]
    stats = jax.devices()[0].memory_stats() or {}
    return {
        "ms_a_round": 1000 * float(np.median(seconds)) / rounds / size,
        "first_block_s": first,
        "parallel": parallel_configurations(simulation.session.spec.layout, size),
        "predicted_gib": simulation.resources.device_bytes / 2**30,
        "peak_so_far_gib": stats.get("peak_bytes_in_use", 0) / 2**30,
    }


def clustered_clients() -> maxfl.Federation:
    """Make clients that can't all be satisfied, so that GM-Appeal is neither 0 nor 1."""
    data, rng = fashion_mnist_12k(), np.random.default_rng(0)
    return assemble(data, clusters(data.y, 60, 200, 5, rng), rng)


def appeal(fed: Any, model: Any) -> dict[str, Any]:
    """Measure annealed MaxFL after 200 rounds: means and standard deviations over seeds."""
    training = maxfl.Training(200, 5, 10, 32, 0.005, 10.0, 200, 200)
    history = maxfl.simulate(
        fed, model, maxfl.maxfl_annealed(rounds=200), training, seed=np.arange(SEEDS)
    )
    last, accuracy = history.gm_appeal()[:, -1], history.test_metric()[:, -1]
    return {
        "seeds": SEEDS,
        "gm_appeal": [float(last.mean()), float(last.std(ddof=1))],
        "test_accuracy": [float(accuracy.mean()), float(accuracy.std(ddof=1))],
        "each_gm_appeal": [float(v) for v in last],
    }


if __name__ == "__main__":
    main()
