"""The ready app and the examples: their diffs are true and short, and they do what they say."""

import importlib
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import Context, RecordDict

from flower_nodes import Nodes, _identity  # noqa: F401

pytestmark = pytest.mark.usefixtures("_identity")
ROOT = Path(__file__).parent.parent
READY = ROOT / "src/maxfl/flower/ready-app"
APPS = {
    "flower-numpy": READY / "federation",
    "flower-pytorch": ROOT / "examples/flower-pytorch/torchfl",
}


@pytest.mark.parametrize("example", APPS)
def test_the_diff_is_true_and_short(example):
    text = (ROOT / "examples" / example / "README.md").read_text()
    blocks = re.findall(r"in `(\w+\.py)`:\n\n```diff\n(.*?)```", text, re.S)
    assert [name for name, _ in blocks] == ["client_app.py", "server_app.py"]
    added = 0
    for name, diff in blocks:
        lines = (APPS[example] / name).read_text().splitlines()
        for line in diff.splitlines():
            assert (line[1:] in lines) is (line[0] == "+"), f"{name}: {line}"
            added += line[0] == "+"
        ours = [line for line in lines if re.search(r"maxfl|appeal_mod", line, re.I)]
        assert all(f"+{line}" in diff for line in ours if "import" in line or "mods" in line)
    assert added <= 10


@pytest.fixture
def modules(request, monkeypatch):
    """Server and client of an app, imported as Flower does."""
    package = APPS[request.param]
    monkeypatch.syspath_prepend(str(package.parent))
    yield [importlib.import_module(f"{package.name}.{m}") for m in ("server_app", "client_app")]
    for name in [name for name in sys.modules if name.split(".")[0] == package.name]:
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
    took_part = run(*modules, tmp_path)
    assert took_part[:4] == [4, 4, 4, 4]
    assert 0 < took_part[-1] < 4


def run(server, client, folder):
    """An app in this process: how many took part in each round."""
    nodes = Nodes(*[client.app] * 4)
    for k, context in enumerate(nodes.contexts.values()):
        context.node_config |= {"partition-id": k, "num-partitions": 4}
    settings = {"rounds": 6, "nodes": 4, "decline-after": 4, "timeout": 60, "resume": False,
                "results": str(folder / "results"), "reveal": True}  # fmt: skip
    context = Context(
        run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=settings
    )  # fmt: skip
    server.app(nodes, context)
    log = (folder / "results" / "rounds.log").read_text()
    return [int(n) for n in re.findall(r"(\d) of 4 took part", log)]
