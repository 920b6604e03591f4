"""Milliseconds per round of each model of the zoo, beside the MLP.

    python benchmarks/models.py [FILE.json] [--models MODEL ...] [--quick]

FedAvg on made-up samples, on which time does not depend, in the shape of the peers' workload `cnn`:
clients of 60 samples, 10 or 100 a round, 20 steps of 20. On a CPU there are fewer clients, and
smaller models of those that would take minutes a round; what a case has stands in its row. `cnn` is
the peers' (3 x 3, 128 units), on a CPU also with XLA's own convolution; `cnn-leaf` is LEAF's.
Every case runs in a process of its own. The evaluation that ends a block of rounds is measured
alone and taken off. Memory is as predicted and as used.

--quick is a smoke run of tiny models. Writes benchmarks/results/models-cpu.json or models-gpu.json
by the device, or the file given, in which other models of the same session stay. Needs JAX,
optax, NumPy and safetensors alone; benchmarks/torch_models.py measures the same in PyTorch.
"""

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from blocks import measure_blocks
from origin import continued, origin, write_rounds

import maxfl
from maxfl.models import convolution as convolution_module

RESULTS = Path(__file__).parent / "results"
STEPS, BATCH, SAMPLES, TEST = 20, 20, 60, 2
ROUNDS = {
    "logistic": 5000, "mlp": 5000, "cnn": 400, "cnn-leaf": 100, "resnet": 50, "lstm": 20,
    "transformer": 100,
}  # fmt: skip
"""Of a block with 10 clients a round on a GPU: about a second or more."""
LENGTH, VOCABULARY = 80, 80
PEERS_CNN = {"kernel": 3, "conv_padding": "valid", "hidden": [128], "dropout": 0.5}


class Case(NamedTuple):
    """What is measured: a model by its public name, its settings, clients, and rounds a block."""

    label: str
    model: str
    settings: dict[str, Any]
    clients: int
    cohort: int
    rounds: int
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
            yield Case(label, model, settings | tiny.get(model, {}), 4, 2, 1, steps=2)
            continue
        settings = settings | (small.get(model, {}) if on_cpu else {})
        light = model in ("logistic", "mlp")
        for cohort in cohorts:
            if on_cpu and cohort > 10 and not light:
                continue
            rounds = (50 if light else 1) if on_cpu else ROUNDS[label] * 10 // cohort
            yield Case(label, model, settings, clients, cohort, rounds)
            if label == "cnn" and on_cpu:
                yield Case(label, model, settings, clients, cohort, rounds, convolution="lax.conv")


def main() -> None:
    """Measure each case in a new process, print and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--models", nargs="+", choices=ROUNDS, help="those of these labels alone")
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
    if arguments.file is None and (arguments.models or arguments.quick):
        parser.error("name a FILE: a part of the models is no record")
    file = arguments.file or RESULTS / f"models-{'cpu' if on_cpu else 'gpu'}.json"
    header = described | {
        "machine": platform.machine(), "steps": STEPS, "batch": BATCH, "samples": SAMPLES,
    }  # fmt: skip
    found = continued(file, header, arguments.models or list(ROUNDS), "label")
    todo = [
        case
        for case in cases(on_cpu, arguments.quick)
        if not arguments.models or case.label in arguments.models
    ]
    for case in todo:
        row = case._asdict() | json.loads(_run([__file__, "--case", json.dumps(case._asdict())]))
        print(row, flush=True)
        found["rounds"].append(row)
        write_rounds(found, file, is_record=not arguments.file, is_last=case == todo[-1])


def describe() -> dict[str, str]:
    """Say what this machine computes on."""
    device = jax.devices()[0]
    return {
        "platform": device.platform, "device": device.device_kind, "jax": jax.__version__,
    } | origin()  # fmt: skip


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
    simulation = simulation_of(case)
    parameters = maxfl.count_parameters(simulation.session.experiment.model).trained
    return measure_blocks(simulation) | {"parameters": parameters}


def simulation_of(case: Case) -> maxfl.Simulation:
    """Return two blocks of rounds of a case."""
    if case.convolution == "lax.conv":
        convolution_module.convolve = convolve_by_xla
    training = maxfl.Training(
        2 * case.rounds, case.cohort, case.steps, BATCH, 0.05, 1.0, case.rounds, case.rounds
    )
    return maxfl.Simulation(
        samples(case),
        build(case),
        maxfl.fedavg(by_size=1.0),
        training,
        requirement=maxfl.fixed(0.5, judge="training"),
    )


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


if __name__ == "__main__":
    main()
