"""The ready app and the examples: their diffs are true and short, and they do what they say."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import Context, RecordDict

from support.flower_nodes import Nodes

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]
ROOT = Path(__file__).parents[2]
READY = ROOT / "src/maxfl/flower/app_template"
APPS = {
    "flower-numpy": READY / "federation",
    "flower-pytorch": ROOT / "examples/flower-pytorch/torchfl",
    "flower-scikit-learn": ROOT / "examples/flower-scikit-learn/sklearnfl",
    "flower-jax": ROOT / "examples/flower-jax/jaxfl",
    "flower-lora": ROOT / "examples/flower-lora/lorafl",
}
NEEDS = {
    "flower-pytorch": ["torch"],
    "flower-scikit-learn": ["sklearn"],
    "flower-lora": ["torch", "transformers", "peft"],
}
"""Packages that an app imports besides."""


def diffs(example):
    """By file: lines that MaxFL adds to a FedAvg app, and lines that they replace."""
    text = (ROOT / "examples" / example / "README.md").read_text()
    blocks = re.findall(r"in `(\w+\.py)`:\n\n```diff\n(.*?)```", text, re.S)
    assert [name for name, _ in blocks] == ["client_app.py", "server_app.py"]
    return {name: diff.splitlines() for name, diff in blocks}


def before(example, folder):
    """The app without what MaxFL added: that of FedAvg."""
    package = APPS[example]
    shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    for name, diff in diffs(example).items():
        path = folder / package.name / name
        lines, replaced = path.read_text().splitlines(), []
        for line in diff:
            if line.startswith("-"):
                replaced.append(line[1:])
            else:  # what it replaces stands before it
                place = lines.index(line[1:])
                lines[place : place + 1], replaced = replaced, []
        path.write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("example", APPS)
def test_the_diff_is_short_and_leaves_a_fedavg_app(example, tmp_path):
    added = [line for diff in diffs(example).values() for line in diff if line[0] == "+"]
    page = (ROOT / "examples" / example / "README.md").read_text()
    assert len(added) <= 10
    assert f"one of MaxFL, {len(added)} lines;" in page
    for path in (before(example, tmp_path) / APPS[example].name).glob("*_app.py"):
        assert not re.search("maxfl|appeal", path.read_text(), re.I), path.read_text()


@pytest.mark.parametrize("example", APPS)
def test_the_app_without_the_diff_runs(example, tmp_path, monkeypatch):
    name = import_needs(example)
    monkeypatch.syspath_prepend(str(before(example, tmp_path)))
    server, client = (importlib.import_module(f"{name}.{m}") for m in ("server_app", "client_app"))
    try:
        nodes, context = federation(client, tmp_path, rounds=1)
        server.app(nodes, context)
        assert not (tmp_path / "results").exists()
    finally:
        forget(name)


def import_needs(example):
    """Skip where an app's packages are not installed; return the name of its own."""
    for package in NEEDS.get(example, []):
        pytest.importorskip(package, reason=f"{package} not installed")
    return APPS[example].name


def test_a_client_of_the_ready_app_loads_without_jax():
    """Every message starts a process on a client: it should not load what it does not need."""
    code = (
        "import sys; from federation import client_app, task; task.load(0, 4);"
        "assert 'jax' not in sys.modules and 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=READY)


@pytest.fixture
def modules(request, monkeypatch):
    """Server and client of an app, imported as Flower does."""
    name = import_needs(request.param)
    monkeypatch.syspath_prepend(str(APPS[request.param].parent))
    yield [importlib.import_module(f"{name}.{m}") for m in ("server_app", "client_app")]
    forget(name)


def forget(package):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]


SURE = ["flower-numpy", "flower-scikit-learn", "flower-jax"]


@pytest.mark.parametrize("modules", SURE, indirect=True)
def test_of_four_clients_three_stay(modules, tmp_path):
    assert run(*modules, tmp_path) == [4, 4, 4, 4, 3, 3]


@pytest.mark.parametrize("modules", ["flower-pytorch", "flower-lora"], indirect=True)
def test_an_app_in_pytorch_runs(modules, tmp_path):
    participated = run(*modules, tmp_path)
    assert participated[:4] == [4, 4, 4, 4]
    assert 0 < participated[-1] < 4


def test_in_the_sentences_of_lora_one_client_contradicts(monkeypatch):
    """Without PyTorch: the data are NumPy's."""
    monkeypatch.syspath_prepend(str(APPS["flower-lora"].parent))
    data = importlib.import_module("lorafl.data")
    try:
        clients = [data.load(k, 4) for k in range(4)]
        assert [len(clients[0][part]) for part in ("train", "judging", "test")] == [120, 40, 80]
        x, y = ([np.array([example[name] for example in client["train"] + client["test"]])
                 for client in clients] for name in ("input_ids", "labels"))  # fmt: skip
        assert x[0].shape == (200, data.LENGTH)
        assert 0 <= x[0].min() <= x[0].max() < data.WORDS
        # What a word counts for, by the first client's labels: others agree, but for the last.
        counts = [np.stack([np.bincount(words, minlength=data.WORDS) for words in sentences])
                  for sentences in x]  # fmt: skip
        value, *_ = np.linalg.lstsq(counts[0], 2.0 * y[0] - 1, rcond=None)
        agree = [np.mean((words @ value > 0) == labels)
                 for words, labels in zip(counts, y, strict=True)]  # fmt: skip
        assert min(agree[:3]) > 0.75 > 0.25 > agree[3], agree
    finally:
        forget("lorafl")


@pytest.mark.parametrize("example", APPS)
def test_every_example_can_be_compiled(example):
    for path in APPS[example].glob("*.py"):
        compile(path.read_text(), path, "exec")


def run(server, client, folder):
    """An app in this process: how many participated in each round."""
    nodes, context = federation(client, folder)
    server.app(nodes, context)
    log = (folder / "results" / "rounds.log").read_text()
    return [int(n) for n in re.findall(r"(\d) of 4 participated", log)]


def federation(client, folder, rounds=6):
    """Four nodes, and the context of a server."""
    nodes = Nodes(*[client.app] * 4)
    for k, context in enumerate(nodes.contexts.values()):
        context.node_config |= {"partition-id": k, "num-partitions": 4}
    settings = {"rounds": rounds, "nodes": 4, "timeout": 60, "resume": False,
                "collect_losses": True, "results": str(folder / "results")}  # fmt: skip
    return nodes, Context(
        run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=settings
    )
