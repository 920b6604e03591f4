"""Milliseconds per round of each model of the zoo, beside the MLP.

    python benchmarks/models.py [FILE.json] [--torch] [--quick]

FedAvg on made-up samples, on which time does not depend, in the shape of the peers' workload `cnn`:
clients of 60 samples, 10 or 100 a round, 20 steps of 20. On a CPU there are fewer clients, and
smaller models of those that would take minutes a round; what a case has stands in its row. `cnn` is
the peers' (3 x 3, 128 units), also with XLA's own convolution; `cnn-leaf` is the one of LEAF.
Every case runs in a process of its own. The evaluation that ends a block of rounds is measured
alone and taken off.

--torch also measures the peers' PyTorch loop on `cnn`, where PyTorch is installed; --quick is a
smoke run of tiny models. Writes benchmarks/results/models-cpu.json or models-gpu.json by the
device, or the file given. Needs JAX, optax, NumPy and safetensors alone.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import maxfl
from maxfl.core.requirements.requirement import Solo
from maxfl.engine.trainer import Prepared
from maxfl.models import cnn as cnn_module

PEERS = Path(__file__).parent / "peers"
RESULTS = Path(__file__).parent / "results"
STEPS, BATCH, SAMPLES, TEST = 20, 20, 60, 2
TURNS, SECONDS, MOST_ROUNDS = 3, 2.0, 50
LENGTH, VOCABULARY = 80, 80
PEERS_CNN = {"kernel": 3, "conv_padding": "valid", "hidden": [128], "dropout": 0.5}
TORCH = {"cpu": ("one thread", "vmap"), "cuda": ("vmap", "vmap, CUDA graph")}


class Case(NamedTuple):
    """What is measured: a model by its public name, its settings, and how many clients."""

    label: str
    model: str
    settings: dict[str, Any]
    clients: int
    cohort: int
    steps: int = STEPS
    convolution: str = "product"


def cases(on_cpu: bool, quick: bool) -> Iterator[Case]:
    """List all cases: on a CPU fewer clients, and small models of the slow ones."""
    clients, cohorts = 100 if on_cpu else 500, (10, 100)
    models = {
        "logistic": ("logistic", {}), "mlp": ("mlp", {"hidden": [64, 30]}),
        "cnn": ("cnn", PEERS_CNN), "cnn-leaf": ("cnn", {}), "resnet": ("resnet", {}),
        "lstm": ("lstm", {}), "transformer": ("transformer", {}),
    }  # fmt: skip
    small: dict[str, dict[str, Any]] = {
        "resnet": {"blocks": 1}, "lstm": {"hidden": [64]}, "transformer": {"width": 64},
    }  # fmt: skip
    tiny: dict[str, dict[str, Any]] = {
        "mlp": {"hidden": [4]}, "cnn": {"channels": [2], "hidden": [4]},
        "resnet": {"blocks": 1, "width": 2, "groups": 1}, "lstm": {"hidden": [4]},
        "transformer": {"width": 4, "heads": 1, "depth": 1},
    }  # fmt: skip
    for label, (model, settings) in models.items():
        if quick:
            yield Case(label, model, settings | tiny.get(model, {}), 4, 2, steps=2)
            continue
        settings = settings | (small.get(model, {}) if on_cpu else {})
        for cohort in cohorts:
            if on_cpu and cohort > 10 and model not in ("logistic", "mlp"):
                continue
            yield Case(label, model, settings, clients, cohort)
            if label == "cnn":
                yield Case(label, model, settings, clients, cohort, convolution="lax.conv")


def main() -> None:
    """Measure each case in a new process, print and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--torch", action="store_true", help="the peers' loop on cnn too")
    parser.add_argument("--quick", action="store_true", help="tiny models, to try the script")
    parser.add_argument("--case", help="measure this one, as JSON, in this process")
    parser.add_argument("--describe", action="store_true", help="say what this machine has")
    arguments = parser.parse_args()
    if arguments.describe:
        print(json.dumps(describe()))
        return
    if arguments.case:
        print(json.dumps(measure(Case(**json.loads(arguments.case)))))
        return
    # In another process, so that this one holds no memory of the device.
    described = json.loads(_run([__file__, "--describe"]))
    on_cpu = described["platform"] == "cpu"
    file = arguments.file or RESULTS / f"models-{'cpu' if on_cpu else 'gpu'}.json"
    found: dict[str, Any] = described | {
        "machine": platform.machine(), "steps": STEPS, "batch": BATCH, "samples": SAMPLES,
        "rounds": [], "torch": [],
    }  # fmt: skip

    def write_row(table: str, row: dict[str, Any]) -> None:
        print(row, flush=True)
        found[table].append(row)
        file.write_text(json.dumps(found, indent=1) + "\n")

    for case in cases(on_cpu, arguments.quick):
        row = json.loads(_run([__file__, "--case", json.dumps(case._asdict())]))
        write_row("rounds", case._asdict() | row)
    if arguments.torch:
        for cohort in (2,) if arguments.quick else (10, 100):
            for row in torch_rounds(cohort, on_cpu, arguments.quick):
                write_row("torch", {"cohort": cohort} | row)


def describe() -> dict[str, str]:
    """Say what this machine computes on."""
    device = jax.devices()[0]
    return {
        "platform": device.platform, "device": device.device_kind, "jax": jax.__version__,
    }  # fmt: skip


def _run(command: list[str]) -> str:
    """Return the last line that a Python process prints, or say that it failed."""
    done = subprocess.run(
        [sys.executable, *command], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        return json.dumps({"failed": done.returncode})
    return done.stdout.strip().splitlines()[-1]


def measure(case: Case) -> dict[str, Any]:
    """Measure time and memory of a round, and how long the first block takes to compile."""
    maxfl.use_all_cores()
    if case.convolution == "lax.conv":
        cnn_module.convolve = convolve_by_xla
    federation, model = samples(case), build(case)
    once, first = seconds(case, federation, model, 1)
    rounds = max(1, min(MOST_ROUNDS, int(SECONDS / max(once, 1e-3))))
    taken, _ = (once, first) if rounds == 1 else seconds(case, federation, model, rounds)
    stats = jax.devices()[0].memory_stats()
    return {
        "ms_a_round": 1000 * taken / rounds,
        "rounds_a_block": rounds,
        "first_block_s": first,
        "parameters": maxfl.count_parameters(model).trained,
        "peak_gib": stats["peak_bytes_in_use"] / 2**30 if stats else None,
    }


def seconds(
    case: Case, federation: maxfl.Federation, model: maxfl.Model, rounds: int
) -> tuple[float, float]:
    """Return the median time of some rounds without evaluation, and the time of the first block."""
    training = maxfl.Training(2 * rounds, case.cohort, case.steps, BATCH, 0.05, 1.0, rounds, rounds)
    simulation = maxfl.Simulation(
        federation,
        model,
        maxfl.fedavg(by_size=1.0),
        training,
        requirement=maxfl.fixed(0.5, judge="training"),
    )
    nothing = np.zeros((1, case.clients), np.float32)
    solo = Solo(nothing, nothing, (nothing,) * len(model.named_metrics))
    prepared, state = Prepared(solo, simulation.requirements(solo)), simulation.start()

    def block(number: int) -> float:
        began = time.perf_counter()
        jax.block_until_ready(next(simulation.blocks(prepared, state, done=number)))
        return time.perf_counter() - began

    first = block(1)
    block(0)
    # The block before the rounds is nothing but an evaluation, as there is at a block's end.
    whole, evaluations = ([block(number) for _ in range(TURNS)] for number in (1, 0))
    return float(np.median(whole) - np.median(evaluations)), first


def samples(case: Case) -> maxfl.Federation:
    """Make up samples of the kind that the model takes."""
    rng, clients = np.random.default_rng(0), case.clients

    def split(each: int) -> maxfl.Samples:
        total = clients * each
        offsets = np.arange(0, total + 1, each, dtype=np.int32)
        if case.model in ("lstm", "transformer"):
            tokens = rng.integers(1, VOCABULARY, (total, LENGTH + 1), np.int32)
            return maxfl.Samples(tokens[:, :-1], tokens[:, 1:], offsets)
        shape = (32, 32, 3) if case.model == "resnet" else (28, 28)
        images = rng.integers(0, 256, (total, *shape), np.uint8)
        return maxfl.Samples(images, rng.integers(0, 62, total, np.int32), offsets)

    scaling = maxfl.InputScaling(np.float32(0), np.float32(1 / 255))
    classes = None if case.model in ("lstm", "transformer") else 62
    return maxfl.Federation(split(SAMPLES), split(TEST), clients, classes, scaling)


def build(case: Case) -> maxfl.Model:
    """Make the model for these samples."""
    fits = {
        "logistic": {"inputs": 784, "classes": 62}, "mlp": {"inputs": 784, "classes": 62},
        "cnn": {"shape": (28, 28), "classes": 62}, "resnet": {"shape": (32, 32, 3), "classes": 62},
        "lstm": {"vocabulary": VOCABULARY},
        "transformer": {"vocabulary": VOCABULARY, "length": LENGTH},
    }  # fmt: skip
    return getattr(maxfl, case.model)(**fits[case.model], **case.settings)


def convolve_by_xla(x: jax.Array, weight: jax.Array, stride: int = 1, padding: str = "same") -> Any:
    """Convolve as most models do; many clients' weights become many groups."""
    return jax.lax.conv_general_dilated(
        x, weight, (stride, stride), padding.upper(), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def torch_rounds(cohort: int, on_cpu: bool, quick: bool) -> Iterator[dict[str, Any]]:
    """Run the peers' PyTorch loop on the model `cnn`, in every variant."""
    if find_spec("torch") is None:
        yield {"failed": "PyTorch is not installed here"}
        return
    device = "cpu" if on_cpu else "cuda"
    with tempfile.TemporaryDirectory() as folder:
        write_task(Path(folder), cohort, quick)
        for variant in TORCH[device]:
            out = f"{folder}/out.npz"
            done = subprocess.run(
                [sys.executable, str(PEERS / "peer_torch.py"), folder, "--device", device,
                 "--variant", variant, "--out", out],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                yield {"variant": variant, "failed": done.stderr.splitlines()[-1:]}
                continue
            printed = json.loads(done.stdout.splitlines()[-1])
            yield {
                "variant": variant, "ms_a_round": float(np.median(printed["ms"])),
                "versions": printed["versions"],
            }  # fmt: skip


def write_task(folder: Path, cohort: int, quick: bool) -> None:
    """Write the peers' workload `cnn` on made-up samples, as the peers take it."""
    sys.path.append(str(PEERS))
    from task import Samples, Task, write
    from workloads import WORKLOADS, draw_start, shapes

    federation = samples(Case("cnn", "cnn", {}, 4 if quick else 500, cohort))
    rng = np.random.default_rng(0)
    train, test = (
        Samples(s.x, s.y, s.offsets.astype(np.int64)) for s in (federation.train, federation.test)
    )
    task = Task(
        name="cnn", model="cnn", cohort=cohort, steps=STEPS, batch=BATCH, rate=0.05, dropout=0.5,
        warm=2, rounds=1 if quick else 10, evaluated=False, shift=0.0, scale=1 / 255, train=train,
        test=test, start=draw_start(shapes(WORKLOADS["cnn"], 62), rng),
    )  # fmt: skip
    write(task, folder)


if __name__ == "__main__":
    main()
