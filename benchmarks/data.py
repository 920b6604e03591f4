"""Time and memory of a million rows of a user's table, and of loading and splitting real files.

    python benchmarks/data.py FOLDER [--rows 1000000] [--repeat 3] [--out FILE.json]
    MAXFL_DATA=folder python benchmarks/data.py --published [--vectors NAME]

The first makes tables of 50 columns of floats, a client and a label, writes them to FOLDER (2 GB,
used again) and makes federations of them, each in a new process, a few times, of which the fastest
counts. What it calls memory is the largest resident set of that process beyond what it had before,
and with the frame itself where one is given, over the bytes of the table in memory. Beside the time
on the clock there is that of all cores together, which other work on the machine changes less.
Needs the extra `more`. Writes benchmarks/results/data-cpu.json or the file given.

The second needs Fashion-MNIST, the Sentiment140 sample and a GloVe file. Tweets are the sample's
rows repeated to the number of the full Sentiment140.
"""

import argparse
import gc
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import maxfl
from maxfl.data import partition
from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist
from maxfl.data.glove import read_vectors
from maxfl.data.locate import obtain
from maxfl.data.registry import SENTIMENT140_SAMPLE, glove_file
from maxfl.data.sentiment140 import read_tweets
from maxfl.data.tweets import average
from maxfl.runs.build_data import prepare_federation
from maxfl.runs.configs.data import DataConfig
from maxfl.utils.files import write_json

FILE = Path(__file__).parent / "results/data-cpu.json"
COLUMNS, TWEETS = 50, 1_600_000


class Case(NamedTuple):
    """A kind of file or frame, the type of its features, and the number of clients."""

    kind: str
    dtype: str = "float64"
    clients: int = 1000


CASES = {
    "CSV": Case("csv"),
    "Parquet": Case("parquet"),
    "Parquet, float32": Case("parquet", "float32"),
    "Parquet, 50,000 clients": Case("parquet", clients=50_000),
    "Arrow": Case("arrow"),
    "Hugging Face folder": Case("hf"),
    "pandas": Case("pandas"),
    "pandas, float32": Case("pandas", "float32"),
    "pandas, 50,000 clients": Case("pandas", clients=50_000),
    "polars": Case("polars"),
    "Arrow table": Case("pyarrow"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="for the tables; used again")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--published", action="store_true", help="real files instead")
    parser.add_argument("--vectors", default="glove.6B.100d.top50k")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.published:
        measure_published(arguments.vectors)
    elif arguments.folder is None:
        parser.error("name a folder for the tables, or --published")
    elif arguments.case:
        print(json.dumps(measure(arguments.folder, arguments.rows, CASES[arguments.case])))
    else:
        found: dict[str, Any] = {"machine": platform.machine(), "rows": arguments.rows, "cases": []}
        for name, case in CASES.items():
            write_tables(arguments.folder, arguments.rows, case)
            runs = [
                in_process(arguments.folder, arguments.rows, name) for _ in range(arguments.repeat)
            ]
            found["cases"].append(min(runs, key=lambda run: run["seconds"]))
            print(found["cases"][-1], flush=True)
            write_json(arguments.out, found)


def in_process(folder: Path, rows: int, name: str) -> dict[str, Any]:
    """Return what ``measure`` finds in a new process."""
    command = [sys.executable, __file__, str(folder), "--rows", str(rows), "--case", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return {"case": name} | json.loads(done.stdout.splitlines()[-1])


def measure(folder: Path, rows: int, case: Case) -> dict[str, float]:
    """Return seconds and memory of a federation of one table."""
    path = place(folder, rows, case)
    frame = load_frame(path, case)
    data: dict[str, Any] = {"file": str(path), "client_column": "client", "label_column": "label"}
    size = table_bytes(path, frame)
    gc.collect()
    pa.default_memory_pool().release_unused()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the largest resident set so far
    began, worked = time.perf_counter(), time.process_time()
    if frame is None:
        federation = prepare_federation(DataConfig(**data), 0)
    else:
        federation = maxfl.Federation.from_dataframe(frame, client="client", label="label")
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    grown = resident("VmHWM") - before + (0 if frame is None else size)
    assert federation.train.x.shape[1] == COLUMNS
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "table_mb": size / 2**20,
        "memory_of_table": grown / size,
    }


def resident(which: str) -> int:
    """Return the resident set now (VmRSS) or the largest one (VmHWM), in bytes; Linux only."""
    line = next(s for s in Path("/proc/self/status").read_text().splitlines() if which in s)
    return 1024 * int(line.split()[1])


def table_bytes(path: Path, frame: Any) -> int:
    """Return the bytes of a table in memory: of the frame, or of the Arrow table beside a file."""
    if frame is not None:
        usage = getattr(frame, "memory_usage", None)
        if usage is not None:
            return int(usage(deep=True).sum())
        return int(frame.nbytes if isinstance(frame, pa.Table) else frame.estimated_size())
    return int(json.loads(path.with_name(f"{path.name}.json").read_text())["bytes"])


def load_frame(path: Path, case: Case) -> Any:
    """Return a frame of a kind that is given in memory; None for files."""
    if case.kind not in ("pandas", "polars", "pyarrow"):
        return None
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    if case.kind == "pandas":
        return table.to_pandas(self_destruct=True)
    if case.kind == "polars":
        import polars

        return polars.from_arrow(table)
    return table


def place(folder: Path, rows: int, case: Case) -> Path:
    """Return where a table is; frames are read from Parquet files."""
    suffix = {"csv": "csv", "arrow": "arrow", "hf": "hf"}.get(case.kind, "parquet")
    return folder / f"{rows}-{case.dtype}-{case.clients}.{suffix}"


def write_tables(folder: Path, rows: int, case: Case) -> None:
    """Write a case's table, and its size in memory beside it."""
    import pyarrow.parquet as pq
    from pyarrow import csv, feather

    path = place(folder, rows, case)
    if path.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    owner = rng.integers(0, case.clients, rows)
    names = pa.array([f"client-{k:05d}" for k in range(case.clients)])
    columns: dict[str, Any] = {"client": names.take(pa.array(owner))}
    columns |= {f"x{j}": rng.normal(j, 1 + j, rows).astype(case.dtype) for j in range(COLUMNS)}
    table = pa.table(columns | {"label": rng.integers(0, 2, rows)})
    match case.kind:
        case "csv":
            csv.write_csv(table, path)
        case "arrow":
            feather.write_feather(table, path, compression="uncompressed")
        case "hf":
            import datasets

            datasets.Dataset(table).save_to_disk(path)
        case _:
            pq.write_table(table, path)
    write_json(path.with_name(f"{path.name}.json"), {"bytes": table.nbytes})


def timed(what: str, work: Callable[[], Any]) -> Any:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{what:58} {seconds:8.2f} s   peak memory + {grown:6.0f} MB", flush=True)
    return result


def measure_published(glove: str) -> None:
    """Load and split real files, one after another."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache  # nothing unpacked before
        data = timed("Fashion-MNIST, first time (unpacks it)", fashion_mnist)
        timed("Fashion-MNIST again", fashion_mnist)

        def rng() -> np.random.Generator:
            return np.random.default_rng(0)

        split = timed(
            "70,000 samples over 10,000 clients, Dirichlet 0.1",
            lambda: partition.dirichlet(data.y, 10_000, 7, 0.1, rng()),
        )
        timed(
            "the same, unequal sizes",
            lambda: partition.dirichlet_unequal(data.y, 10_000, 0.1, 2, rng()),
        )
        timed("10,000 clients as a federation", lambda: assemble(data, split, rng()))
        tweets = timed("24,354 tweets from CSV", lambda: read_tweets(obtain(SENTIMENT140_SAMPLE)))
        vectors = timed(glove, lambda: read_vectors(obtain(glove_file(glove))))
        texts = (tweets.texts * -(-TWEETS // len(tweets.texts)))[:TWEETS]
        dimension = vectors.table.shape[1]
        x, found = timed(
            f"{TWEETS:,} tweets as mean vectors of {dimension}", lambda: average(texts, vectors)
        )
        print(f"words found: {found:.1%}; features {x.shape} {x.dtype}, {x.nbytes / 2**20:.0f} MB")


if __name__ == "__main__":
    main()
