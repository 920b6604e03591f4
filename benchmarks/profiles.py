"""Which kernels the rounds of benchmarks/models.py consist of on a GPU, and how long each takes.

    python benchmarks/profiles.py FILE.json MODEL/COHORT ...        as mlp/10 transformer/100

For each case: kernels that run in a local step, and of the longest the number and the microseconds
a step, evaluation included, by the names that XLA gives them. Needs what benchmarks/models.py does.
"""

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import jax
from blocks import timed_blocks
from jax.profiler import ProfileData
from origin import origin

from models import Case, cases, simulation_of

SHOWN, ROUNDS = 80, 10


def main() -> None:
    """Profile the cases given, print and write."""
    known = {f"{case.label}/{case.cohort}": case for case in cases(on_cpu=False, quick=False)}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("cases", nargs="+", choices=known, metavar="MODEL/COHORT")
    given = parser.parse_args()
    found: dict[str, Any] = {
        "device": jax.devices()[0].device_kind, "jax": jax.__version__, "profiles": [],
    } | origin()  # fmt: skip
    for name in given.cases:
        row = profile(known[name]._replace(rounds=ROUNDS))
        print(row, flush=True)
        found["profiles"].append(row)
        given.file.write_text(json.dumps(found, indent=1) + "\n")


def profile(case: Case) -> dict[str, Any]:
    """Measure the kernels of a case in its second block of rounds."""
    block = timed_blocks(simulation_of(case))
    block(1)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            block(1)
        (trace,) = Path(folder).rglob("*.xplane.pb")
        count, time = read_kernels(ProfileData.from_file(str(trace)))
    steps = case.rounds * case.steps
    return {
        "label": case.label,
        "cohort": case.cohort,
        "kernels_a_step": sum(count.values()) / steps,
        "longest": [
            {"kernel": name, "a_step": count[name] / steps, "us_a_step": us / steps}
            for name, us in time.most_common(SHOWN)
        ],
    }


def read_kernels(trace: ProfileData) -> tuple[Counter[str], Counter[str]]:
    """Return how often each kernel ran, and for how many microseconds altogether."""
    count, time = Counter[str](), Counter[str]()
    for plane in trace.planes:
        for line in plane.lines:
            if "GPU" in plane.name and line.name.startswith("Stream"):
                for event in line.events:
                    count[event.name] += 1
                    time[event.name] += event.duration_ns / 1000
    return count, time


if __name__ == "__main__":
    main()
