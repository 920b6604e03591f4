"""Memory that is predicted today, on any machine, for cases whose memory was measured on an H200.

    python benchmarks/memory.py [FILE.json]

A prediction needs shapes alone: it is made here as it would be there, with a GPU's kernels, and as
much computed at once. What was used stands in models-gpu.json, sweeps-gpu.json and lora.json, below
benchmarks/results. Writes memory-gpu.json there or the file given.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import lora
import sweeps

import maxfl
import models
from maxfl.engine import session as session_module
from maxfl.engine.layout import choose_eval_batch

RESULTS = Path(__file__).parent / "results"
FREE = 0.75 * 139.8 * 2**30
"""Bytes that JAX has on an H200."""
CHANGED = "adapters, "
"""How cases begin that take other memory since it was measured: gradients of layer normalisation in
kernels."""


class Memory(NamedTuple):
    """Of a case, in GiB."""

    case: str
    predicted: float
    used: float


def main() -> None:
    """Predict, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, nargs="?", default=RESULTS / "memory-gpu.json")
    file = parser.parse_args().file
    rows = []
    for found in predictions():
        print(found, flush=True)
        rows.append(found._asdict())
    file.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


def predictions(*only: str) -> Iterator[Memory]:
    """Predict the memory of all recorded cases, or of those named."""
    with as_on_a_gpu():
        for case in comparable():
            if not only or case.name in only:
                session = case.simulation().session
                predicted = session.footprint.of(session.spec.layout) / 2**30
                yield Memory(case.name, predicted, case.used)


class Recorded(NamedTuple):
    """A case, what it simulates, and the GiB that it used."""

    name: str
    simulation: Callable[[], maxfl.Simulation]
    used: float


def comparable() -> Iterator[Recorded]:
    """Give the cases that take the memory today that was measured."""
    return (case for case in recorded() if not case.name.startswith(CHANGED))


def recorded() -> Iterator[Recorded]:
    """Give all cases that were measured."""
    zoo = {(c.label, c.cohort): c for c in models.cases(on_cpu=False, quick=False)}
    latest, earlier = read("models-gpu"), read("models-d-gpu")
    known = {row["label"] for row in latest}
    for row in [*latest, *(row for row in earlier if row["label"] not in known)]:
        case = zoo[row["label"], row["cohort"]]
        name = "{label}, {cohort} clients".format(**row)
        yield Recorded(name, partial(models.simulation_of, case), row["peak_gib"])
    for row in read("sweeps-gpu"):
        sweep = sweeps.Case(*(row[field] for field in sweeps.Case._fields))
        name = "{model}, {method}, {configurations} configurations".format(**row)
        yield Recorded(name, partial(sweeps.simulation_of, sweep), row["peak_gib"])
    for row in read("lora"):
        simulation = partial(lora.simulation_of, row["batch"], row["length"])
        yield Recorded(f"adapters, {row['length']} tokens", simulation, row["peak"] / 2**30)


def read(name: str) -> Any:
    """Read what was measured."""
    found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found["rows" if name == "lora" else "rounds"]


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Make all choices that depend on the device as for a GPU; nothing can be computed then."""
    gpu = [SimpleNamespace(platform="gpu")]
    steps = session_module.compiled_steps

    def eval_batch(sizes: Any, _: Any) -> Any:
        return choose_eval_batch(sizes, gpu)

    with ExitStack() as stack:
        for name, value in {
            "jax.default_backend": lambda: "gpu",
            "maxfl.models.gpu.support._compiles": lambda *_: True,
            "maxfl.engine.layout.default_parallelism": lambda _: 1024,
            "maxfl.engine.session.default_parallelism": lambda _: 1024,
            "maxfl.engine.session.choose_eval_batch": eval_batch,
            "maxfl.engine.session.free_bytes": lambda _: int(FREE),
            "maxfl.engine.session.compiled_steps": lambda given, _: steps(given, "gpu"),
        }.items():
            stack.enter_context(patch(name, value))
        yield


if __name__ == "__main__":
    main()
