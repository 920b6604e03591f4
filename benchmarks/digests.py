"""Digests of results, to show that a change of the code changed no bit of them.

    python benchmarks/digests.py NEW.json [--compare OLD.json] [--only WORD]

Trains a small federation: every method under every participation rule, fine-tuning, client dropout,
a server optimizer, Byzantine clients under every aggregator, a sweep, federations on disk, a run
that is killed and resumed, and clients on Flower (if it is installed): ten minutes on two cores.
Writes the SHA-256 of the tensors of model.safetensors and of all columns of numbers in the tables;
names of columns do not count. Cases that are in NEW.json already are not run again. Digests depend
on the processor and on the version of JAX: compare those of one machine.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from safetensors.numpy import load_file

ROOT = Path(__file__).resolve().parent.parent
TABLES = ("history", "rounds", "clients", "metrics", "partition")
BASE = {
    "seed": 3,
    "data.source": "synthetic",
    "data.partition": "by-owner",
    "data.clients": 8,
    "data.unseen": 2,
    "data.synthetic_samples": 20,
    "model.hidden": [6, 5],
    "training.rounds": 6,
    "training.cohort": 4,
    "training.local_steps": 3,
    "training.batch_size": 4,
    "training.evaluate_every": 2,
    "training.checkpoint_every": 4,
    "requirement.steps": 10,
    "requirement.judge": "training",
    "requirement.local_lr": "training",
    "requirement.batch_size": "training",
    "algorithm.name": "maxfl",
    "participation.start_round": 2,
}
ATTACK = {
    "attack.fraction": 0.25,
    "attack.loss_inflation": 5.0,
    "attack.noise_std": 0.1,
    "attack.update_scale": -1.0,
    "attack.flip_labels": True,
    "server.num_byzantine": 0,
    "server.clip_norm": 1.0,
}
Settings = dict[str, Any]
Digests = dict[str, str]


class Case(NamedTuple):
    """A command of ``maxfl``, the settings that differ from ``BASE``, and more options."""

    verb: str
    settings: Settings
    options: tuple[str, ...] = ()


def main() -> None:
    """Run what is missing, write its digests, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--only", default="", help="cases whose name has this word")
    options = parser.parse_args()
    os.environ |= {
        "JAX_NUM_CPU_DEVICES": "2",
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache/jax-digests"),
    }
    found: dict[str, Digests] = {}
    if options.file.exists():
        found = json.loads(options.file.read_text())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        command("data", "write", write_config(folder, {}), folder / "federation")
        todo = {name: case for name, case in cases(folder).items() if options.only in name}
        for name, case in todo.items():
            if name not in found:
                out = folder / name.replace("/", "-")
                config = write_config(folder, case.settings)
                command(case.verb, config, "--out", out, *case.options)
                keep(options.file, found, name, digests(out))
        for name, special in {"killed": killed, "flower": flower}.items():
            if options.only in name and name not in found:
                keep(options.file, found, name, special(folder))
    if options.compare:
        compare(json.loads(options.compare.read_text()), found)


def cases(folder: Path) -> dict[str, Case]:
    """Return every case that a command trains."""
    from maxfl import ALGORITHMS

    found = {
        f"{name}/{rule}": Case("run", {"algorithm.name": name, "participation.rule": rule})
        for rule in ("everyone", "opt-out", "decline")
        for name in ALGORITHMS
    }
    scaffold = {"algorithm.name": "scaffold", "participation.client_dropout": 0.3}
    adam = {"server.optimizer": "adam", "training.server_lr": 0.01}
    found |= {
        "maxfl/fine-tuning": Case("run", {"personalization.finetune_steps": 2}),
        "scaffold/dropout": Case("run", scaffold),
        "maxfl/adam": Case("run", adam),
    }
    for aggregator in ("mean", "median", "trimmed-mean", "krum"):
        case = Case("run", {**ATTACK, "server.aggregator": aggregator})
        found[f"byzantine/{aggregator}"] = case
    lists = {
        "sweep.training.local_lr": [0.1, 0.05],
        "sweep.algorithm.name": ["maxfl", "fedavg"],
        "sweep.seed": [0, 1],
    }
    found["sweep"] = Case("sweep", lists)
    found["sweep/vectorised"] = Case("sweep", lists, ("--max-parallel", "4"))
    disk = {
        "data.source": "disk",
        "data.folder": str(folder / "federation"),
        "data.eval_clients": 3,
    }
    opt_out = {"participation.rule": "opt-out", "participation.max_candidates": 6}
    for name, more in {"": {}, "/opt-out": opt_out, "/scaffold": scaffold}.items():
        found[f"on-disk{name}"] = Case("run", disk | more)
    return found


def write_config(folder: Path, settings: Settings) -> Path:
    """Write a TOML file of dotted keys."""
    path = folder / "config.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in (BASE | settings).items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def command(*words: Any) -> None:
    """Run ``maxfl`` in this process, so that programs are shared."""
    from maxfl.cli import main

    sys.argv = ["maxfl", *map(str, words)]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"{words} ended with status {end.code}") from end


def digests(folder: Path) -> Digests:
    """Return the digests of a finished folder's model and tables."""
    found = {}
    if (model := folder / "model.safetensors").exists():
        sha = hashlib.sha256()
        for name, value in sorted(load_file(model).items()):
            sha.update(f"{name}{(value.shape, value.dtype)}".encode() + value.tobytes())
        found["model"] = sha.hexdigest()[:16]
    for name in TABLES:
        if (table := folder / f"{name}.parquet").exists():
            sha = hashlib.sha256()
            for column in pq.read_table(table).columns:
                values = column.to_numpy()
                if values.dtype.kind in "biuf":
                    sha.update(np.ascontiguousarray(values).tobytes())
            found[name] = sha.hexdigest()[:16]
    return found


def killed(folder: Path) -> Digests:
    """Kill a run after some blocks and resume it."""
    out = folder / "killed"
    config = write_config(folder, {"training.rounds": 2000, "algorithm.name": "scaffold"})
    code = "from maxfl.cli import main; main()"
    words = [sys.executable, "-c", code, "run", str(config), "--out", str(out)]
    process = subprocess.Popen(words)
    while not (out / "checkpoint/block-00010").exists():
        if process.poll() is not None:
            raise RuntimeError("it ended before it was killed")
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run([*words, "--resume"], check=True)
    return digests(out)


def flower(folder: Path) -> Digests:
    """Train five rounds of JAX clients through the Flower strategy and mod, in this process."""
    if find_spec("flwr") is None:
        return {}
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/support/flower_parity")]
    from flwr.supercore.task_identity import TaskIdentity
    from parity import setting

    from maxfl.flower import MaxFL
    from maxfl.flower.jax_client import Local, client_app, initial_arrays
    from support.flower_nodes import Nodes

    for name in ("_task_id", "_run_id", "_node_id"):
        setattr(TaskIdentity, name, 1)
    local = Local(setting.federation(), setting.MODEL, setting.TRAINING, setting.SEED)
    apps = [client_app(local, setting.REQUIREMENT) for _ in range(setting.CLIENTS)]
    nodes = Nodes(*apps)
    for k, context in enumerate(nodes.contexts.values()):
        context.node_config["partition-id"] = k
    strategy = MaxFL(
        folder=folder / "flower",
        server_lr=setting.TRAINING.server_lr,
        server_schedule=setting.SCHEDULE,
        decline_after=setting.DECLINE_AFTER,
        fraction_evaluate=1.0,
        min_available_nodes=setting.CLIENTS,
        min_train_nodes=setting.CLIENTS,
    )
    start = initial_arrays(setting.MODEL, setting.SEED)
    strategy.start(nodes, start, num_rounds=setting.TRAINING.rounds, timeout=120)
    return digests(folder / "flower")


def keep(file: Path, found: dict[str, Digests], name: str, value: Digests) -> None:
    """Write the digests so far."""
    found[name] = value
    file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def compare(old: dict[str, Digests], new: dict[str, Digests]) -> None:
    """Print which cases differ or are missing, and end with an error if any does."""
    names = sorted({*old, *new})
    alike = [name for name in names if new.get(name) and old.get(name) == new[name]]
    print(f"{len(alike)} of {len(names)} cases have the same bits")
    for name in sorted({*names} - {*alike}):
        before, after = old.get(name) or {}, new.get(name) or {}
        differ = [table for table in after if before.get(table) != after[table]]
        print(f"{name}: {', '.join(differ) if before and after else 'missing'}")
    sys.exit(len(alike) < len(names))


if __name__ == "__main__":
    main()
