"""This engine beside its peers, on the same workloads, in one run on one machine.

    python benchmarks/peers/run.py                                     # all: `make bench-peers`
    python benchmarks/peers/run.py --peers maxfl numpy --workloads mlp

Peers take turns. In the first pass every variant of a peer runs, and its fastest is the one that
counts and runs again in the others. What counts of a pass is its fastest block of rounds, since
what else the machine does only adds to it; the median of the passes is a peer's time. A run of all
peers and workloads on a machine like one of docs/performance.md's writes a record,
benchmarks/results/peers-ARCHITECTURE.json, and fills the page. Anything else is written to
.cache/peers/results.json.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import check
import environments
import flops
import numpy as np
import table
import task as tasks
import workloads
from rich.console import Console

from maxfl.utils.errors import InputError
from maxfl.utils.files import write_json

sys.path.append(str(Path(__file__).parent.parent))
from origin import code

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CACHE = ROOT / ".cache/peers"
PASSES = 3
LIMIT = 120.0
"""Seconds for one process of a peer."""
console = Console()


class Peer(NamedTuple):
    """A row of the table.

    Attributes:
        title: For people.
        script: Its file.
        environment: Whose packages it needs; None for this one.
        variants: Ways to run it, of which the fastest counts.
        evaluated: Ways that differ only where all clients are evaluated; else the first is run.
    """

    title: str
    script: str
    environment: str | None
    variants: tuple[str, ...]
    evaluated: bool = False

    def ways(self, task: tasks.Task) -> tuple[str, ...]:
        """Return the variants worth a try on a task."""
        return self.variants[:1] if self.evaluated and not task.evaluated else self.variants


PROCESSES = "a process each core"
PEERS = {
    "maxfl": Peer("maxfl, FedAvg", "peer_maxfl.py", None, ("FedAvg",)),
    "maxfl-appeal": Peer("maxfl, MaxFL", "peer_maxfl.py", None, ("MaxFL",)),
    "numpy": Peer("NumPy loop", "peer_numpy.py", "numpy", (PROCESSES,)),
    "torch": Peer(
        "PyTorch loop", "peer_torch.py", "torch", (PROCESSES, "one thread", "all threads", "vmap")
    ),
    "fedjax": Peer("FedJAX", "peer_fedjax.py", "fedjax", ("jit", "pmap")),
    "pfl": Peer("pfl", "peer_pfl.py", "torch", (PROCESSES, "one thread", "all threads")),
    "flower": Peer(
        "Flower", "peer_flower.py", "flower", ("server evaluates", "clients evaluate"),
        evaluated=True,
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="(all)")
    names = list(workloads.WORKLOADS)
    parser.add_argument("--workloads", nargs="+", choices=names, default=names, help="(all)")
    parser.add_argument(
        "--passes",
        type=int,
        default=PASSES,
        help="passes over all peers (3); with fewer, the page is not filled",
    )
    parser.add_argument(
        "--quick", action="store_true", help="one pass, and of each peer its first variant only"
    )
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one process (120)")
    arguments = parser.parse_args()
    arguments.passes = 1 if arguments.quick else arguments.passes
    missing = set(PEERS) - set(arguments.peers) or set(names) - set(arguments.workloads)
    partial = bool(missing) or arguments.passes < PASSES
    interpreters = prepare(arguments.peers)
    began = time.monotonic()
    results: dict[str, Any] = {
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "code": code(),
        "partial": partial,
        "quick": arguments.quick,
        "passes": arguments.passes,
        "machine": machine(),
        "peak_gflops": peak(),
        "compile_seconds": compile_times(arguments.passes) if "maxfl" in arguments.peers else None,
        "workloads": {},
    }
    for name in arguments.workloads:
        results["workloads"][name] = measure(name, arguments, interpreters)
    results["peak_gflops"] = max(results["peak_gflops"], peak())
    results["seconds"] = round(time.monotonic() - began)
    why = table.why_no_record(results)
    path = CACHE / "results.json" if why else table.record(platform.machine())
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, results)
    table.show(console, results)
    console.print(f"{results['seconds']} s; written to {path.relative_to(ROOT)}")
    if why:
        console.print(f"docs/performance.md stays as it is: {why}")
    else:
        table.fill_page()


def prepare(peers: list[str]) -> dict[str, Path | str]:
    """Return the interpreter of each peer, or why there is none."""
    found: dict[str, Path | str] = {}
    for name in peers:
        environment = PEERS[name].environment
        try:
            with console.status(f"environment of {name}"):
                found[name] = (
                    Path(sys.executable) if environment is None
                    else environments.python(environment, CACHE / "environments")
                )  # fmt: skip
        except OSError as error:
            found[name] = f"its environment can't be made: {error}"
    return found


def measure(
    name: str, arguments: argparse.Namespace, interpreters: dict[str, Path | str]
) -> dict[str, Any]:
    """Measure all peers on one workload."""
    title = workloads.WORKLOADS[name].title
    try:
        task = workloads.make(name)
    except InputError as error:
        console.print(f"[yellow]{title}: {error}[/]")
        # The rest of the message is a folder of this machine.
        return {"title": title, "missing": str(error).split(":")[0], "peers": {}}
    folder = CACHE / "tasks" / name
    tasks.write(task, folder)
    entries: dict[str, dict[str, Any]] = {peer: {"passes": []} for peer in arguments.peers}
    for _ in range(arguments.passes):
        for peer, entry in entries.items():
            if "error" not in entry:
                ways = PEERS[peer].ways(task)[: 1 if arguments.quick else None]
                take_turn(peer, entry, task, folder, interpreters[peer], arguments.limit, ways)
    for peer, entry in entries.items():
        entry["title"] = PEERS[peer].title
        if "error" not in entry:
            entry["ms"] = round(median(entry["passes"]), 2)
    return {
        "title": title,
        "flops": {"training": flops.training(task), "evaluation": flops.evaluation(task)},
        "evaluated": task.evaluated,
        "rounds": task.rounds,
        "blocks": task.blocks,
        "peers": entries,
    }


def take_turn(
    peer: str, entry: dict[str, Any], task: tasks.Task, folder: Path, python: Path | str,
    limit: float, ways: tuple[str, ...],
) -> None:  # fmt: skip
    """Make one pass of a peer: all its variants in the first, later the best."""
    first = not entry["passes"]
    if isinstance(python, str):
        entry["error"] = python
        return
    tried: dict[str, Any] = {}
    for way in ways if first else (entry["variant"],):
        with console.status(f"{task.name}: {PEERS[peer].title}, {way}"):
            tried[way] = one_run(python, PEERS[peer].script, task, folder, way, limit)
    best = min(tried.values(), key=lambda done: done.get("ms", np.inf))
    if "ms" not in best:
        entry["error"] = best["error"]
        console.print(f"{task.name}: {PEERS[peer].title} fails: {entry['error']}", markup=False)
        return
    if first:
        entry["tried"] = {way: done.get("ms", done.get("error")) for way, done in tried.items()}
        entry |= {k: v for k, v in best.items() if k not in ("ms", "evaluation_ms")}
    entry["passes"].append(best["ms"])
    if "evaluation_ms" in best:
        entry.setdefault("evaluation_passes", []).append(best["evaluation_ms"])
    console.print(f"{task.name}: {PEERS[peer].title}, {best['variant']}: "
                  f"{best['ms']:.1f} ms a round, loss {best['loss']:.3f}")  # fmt: skip


def one_run(
    python: Path, script: str, task: tasks.Task, folder: Path, way: str, limit: float
) -> dict[str, Any]:
    """Return what one process of a peer did, measured and checked; or its error."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "trained.npz"
        found = start(python, script, folder, way, limit, "--out", str(out))
        if "error" in found:
            return found
        try:
            loss = check.check(task, out)
        except check.WrongError as error:
            return {"error": str(error)}
    done = {"variant": way, "ms": round(min(found["ms"]), 2), "loss": round(loss, 4),
            "versions": found["versions"]}  # fmt: skip
    if "evaluation_ms" in found:
        done["evaluation_ms"] = round(min(found["evaluation_ms"]), 2)
    return done


def start(
    python: Path, script: str, folder: Path, way: str, limit: float, *more: str, **variables: str
) -> dict[str, Any]:
    """Return the line of JSON that a process printed; or its error."""
    command = [str(python), str(HERE / script), str(folder), "--variant", way, *more]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | variables, start_new_session=True,
    )  # fmt: skip
    try:
        out, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return {"error": f"takes more than {limit:.0f} s"}
    lines = [line for line in out.splitlines() if line.startswith('{"peer"')]
    if process.returncode or not lines:
        return {"error": environments.last_line(errors).replace(str(ROOT), "")}
    return json.loads(lines[-1])


def compile_times(number: int) -> dict[str, float | str]:
    """Measure how long the default program compiles: at first, and from JAX's cache on disk.

    Medians of so many passes, or the error of one.
    """
    folder = CACHE / "tasks/compile"
    tasks.write(workloads.make("mlp"), folder)
    passes: dict[str, list[Any]] = {"cold": [], "cached": []}
    for _ in range(number):
        with tempfile.TemporaryDirectory() as cache, console.status("compiling"):
            for seconds in passes.values():
                line = start(
                    Path(sys.executable), "peer_maxfl.py", folder, "compile", LIMIT,
                    JAX_COMPILATION_CACHE_DIR=cache,
                    JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0.5",
                )  # fmt: skip
                seconds.append(line.get("compile_seconds", line.get("error")))
    failed = [found for each in passes.values() for found in each if isinstance(found, str)]
    return {state: failed[0] if failed else median(each) for state, each in passes.items()}


def peak(side: int = 3072, repeats: int = 5) -> float:
    """Measure Gflop/s of a large float32 matrix multiplication on all cores, at best."""
    a = np.random.default_rng(0).random((side, side), np.float32)
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - began)
    return round(flops.peak(min(seconds), side), 1)


def machine() -> dict[str, Any]:
    """Describe the machine, and how busy it was before."""
    lscpu = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    names = [line.split(":")[1].strip() for line in lscpu.splitlines() if "Model name" in line]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "architecture": platform.machine(),
        "cores": tasks.cores(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


if __name__ == "__main__":
    main()
