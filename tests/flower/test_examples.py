"""The ready app and the examples: their diffs are true and short, and they do what they say."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

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
}


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
        lines = path.read_text().splitlines()
        for old, new in zip([*diff, ""], ["", *diff], strict=True):
            if old.startswith("+"):  # what it replaces stands before it
                place = lines.index(old[1:])
                lines[place : place + 1] = [new[1:]] if new.startswith("-") else []
        path.write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("example", APPS)
def test_the_diff_is_short_and_leaves_a_fedavg_app(example, tmp_path):
    added = [line for diff in diffs(example).values() for line in diff if line[0] == "+"]
    assert len(added) <= 10
    for path in (before(example, tmp_path) / APPS[example].name).glob("*_app.py"):
        assert not re.search("maxfl|appeal", path.read_text(), re.I), path.read_text()


def test_the_app_without_the_diff_runs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(before("flower-numpy", tmp_path)))
    server, client = (
        importlib.import_module(f"federation.{m}") for m in ("server_app", "client_app")
    )
    try:
        nodes, context = federation(client, tmp_path)
        server.app(nodes, context)
        assert not (tmp_path / "results").exists()
    finally:
        forget("federation")


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
    package = APPS[request.param]
    monkeypatch.syspath_prepend(str(package.parent))
    yield [importlib.import_module(f"{package.name}.{m}") for m in ("server_app", "client_app")]
    forget(package.name)


def forget(package):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]


@pytest.mark.parametrize("modules", ["flower-numpy"], indirect=True)
def test_of_the_ready_apps_clients_three_stay(modules, tmp_path):
    assert run(*modules, tmp_path) == [4, 4, 4, 4, 3, 3]


@pytest.mark.parametrize(
    "modules",
    [pytest.param("flower-pytorch", marks=pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch not installed"))],
    indirect=True,
)  # fmt: skip
def test_the_app_in_pytorch_runs(modules, tmp_path):
    participated = run(*modules, tmp_path)
    assert participated[:4] == [4, 4, 4, 4]
    assert 0 < participated[-1] < 4


def run(server, client, folder):
    """An app in this process: how many participated in each round."""
    nodes, context = federation(client, folder)
    server.app(nodes, context)
    log = (folder / "results" / "rounds.log").read_text()
    return [int(n) for n in re.findall(r"(\d) of 4 participated", log)]


def federation(client, folder):
    """Four nodes, and the context of a server."""
    nodes = Nodes(*[client.app] * 4)
    for k, context in enumerate(nodes.contexts.values()):
        context.node_config |= {"partition-id": k, "num-partitions": 4}
    settings = {"rounds": 6, "nodes": 4, "timeout": 60, "resume": False, "collect_losses": True,
                "results": str(folder / "results")}  # fmt: skip
    return nodes, Context(
        run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=settings
    )
