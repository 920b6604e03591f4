"""What a server needs to put large replies together: memory and time, beside Flower's FedAvg.

    python benchmarks/flower_sums.py --mib 100 --replies 8 [--json FILE]

Each strategy has a process of its own. Its replies lie in memory as bytes, as Flower hands them
over; what it adds to that at its peak is measured (Linux), and how long it takes. Of several
repetitions the fastest counts.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, FedMedian
from flwr.supercore.task_identity import TaskIdentity

import maxfl
from maxfl.flower import MaxFL, keys

MIB = 2**20
ARRAYS = 4
"""Arrays that a model's numbers are spread over."""
STRATEGIES = {
    "FedAvg": FedAvg,
    "MaxFL": MaxFL,
    "MaxFL, T = 1": lambda: MaxFL(temperature=1.0),
    "FedMedian": FedMedian,
    "MaxFL, median": lambda: MaxFL(aggregator=maxfl.aggregators.median()),
}
BESIDE = {"MaxFL": "FedAvg", "MaxFL, T = 1": "FedAvg", "MaxFL, median": "FedMedian"}


class Nodes:
    """A grid that knows who is there."""

    def __init__(self, number: int) -> None:
        self.number = number

    def get_node_ids(self) -> list[int]:
        """Return everybody."""
        return list(range(1, self.number + 1))


def model(mib: int, seed: int) -> ArrayRecord:
    """Return a model of a size, in single precision."""
    rng = np.random.default_rng(seed)
    size = mib * MIB // 4 // ARRAYS
    return ArrayRecord(
        {f"w{i}": Array(rng.standard_normal(size, np.float32)) for i in range(ARRAYS)}
    )


def answer(message: Message, arrays: ArrayRecord) -> Message:
    """Return what a client would reply."""
    metrics = MetricRecord(
        {"num-examples": 10.0, keys.WEIGHT: 0.2, keys.SATISFIED: 1, keys.NEAR: 1, keys.GAP: 0.5}
    )
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


def status(field: str) -> float:
    """Return a line of what Linux knows of this process's memory, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def measure(name: str, mib: int, replies: int) -> dict[str, float]:
    """Run one strategy's aggregation, and return the seconds and MiB that it took."""
    for identity in ("_task_id", "_run_id", "_node_id"):  # what Flower's processes would set
        setattr(TaskIdentity, identity, 1)
    strategy: Any = STRATEGIES[name]()
    strategy.num_rounds = 2
    run_round(strategy, 1, 1, replies)  # what is loaded in the first round is there in the second
    return run_round(strategy, 2, mib, replies)


def run_round(strategy: Any, number: int, mib: int, replies: int) -> dict[str, float]:
    """Let a strategy put a round's replies together."""
    messages = list(strategy.configure_train(number, model(mib, 0), ConfigRecord(), Nodes(replies)))
    received = [answer(message, model(mib, 1 + i)) for i, message in enumerate(messages)]
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before, began = status("VmRSS"), time.perf_counter()
    arrays, _ = strategy.aggregate_train(number, received)
    seconds = time.perf_counter() - began
    assert arrays is not None
    return {"seconds": seconds, "mib": status("VmHWM") - before}


def main() -> None:
    """Measure every strategy, alone, and print them side by side."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=100)
    parser.add_argument("--replies", type=int, default=8)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--strategies", nargs="*", default=list(STRATEGIES), choices=STRATEGIES)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(measure(given.only, given.mib, given.replies)))
        return
    found: dict[str, dict[str, float]] = {}
    for name in given.strategies:
        command = [sys.executable, __file__, "--mib", str(given.mib)]
        command += ["--replies", str(given.replies), "--only", name]
        runs = [
            json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            for _ in range(given.repetitions)
        ]
        found[name] = {key: min(run[key] for run in runs) for key in runs[0]}
        line = f"{name:16} {found[name]['seconds']:6.2f} s  {found[name]['mib']:7.0f} MiB more"
        if beside := found.get(BESIDE.get(name, "")):
            ratios = (found[name][key] / beside[key] for key in ("seconds", "mib"))
            line += "   {:.2f} times the seconds and {:.2f} the memory of {}".format(
                *ratios, BESIDE[name]
            )
        print(line, flush=True)
    if given.json:
        setting = {"mib": given.mib, "replies": given.replies}
        given.json.write_text(json.dumps(setting | {"strategies": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
