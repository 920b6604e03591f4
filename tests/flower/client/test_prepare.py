"""What a client requires is computed before its node joins, by the app's own functions."""

import importlib
import logging
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from safetensors.numpy import save_file

from maxfl.cli import main
from maxfl.flower import appeal_mod, keys, secure_mod
from maxfl.flower.client.prepare import Node, prepare
from maxfl.utils.errors import InputError

pytestmark = pytest.mark.extras
READY = Path(__file__).parents[3] / "src/maxfl/flower/app_template"
PYPROJECT = """
[tool.flwr.app.components]
clientapp = "{name}:app"
[tool.flwr.app.config]
steps = 3
solo = {{ rate = 0.5 }}
"""
APP = """
from pathlib import Path
import numpy as np
from flwr.app import ArrayRecord, Array, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from maxfl.flower import RequirementStore, appeal_mod, secure_mod

keep = RequirementStore(lambda context: context.run_config["solo.rate"])
mod = appeal_mod.from_evaluate(handlers=lambda: (train, evaluate), solo_rounds=2, keep=keep)
app = ClientApp(mods=[secure_mod, mod])

@app.train()
def train(message, context):
    import later_{name}  # apps import in handlers too
    w = message.content["arrays"]["w"].numpy()
    rate = context.run_config["solo.rate"] * message.content["config"]["lr"]
    content = {{"arrays": ArrayRecord({{"w": Array(w - rate * w)}})}}
    return Message(RecordDict(content), reply_to=message)

@app.evaluate()
def evaluate(message, context):
    loss = float(message.content["arrays"]["w"].numpy().sum())
    return Message(RecordDict({{"metrics": MetricRecord({{"loss": loss}})}}), reply_to=message)
"""


@pytest.fixture
def own_app(tmp_path, request):
    """An app behind secure aggregation whose handlers judge."""
    name = f"own_app_{abs(hash(request.node.name))}"
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PYPROJECT.format(name=name))
    (folder / f"{name}.py").write_text(APP.format(name=name))
    (folder / f"later_{name}.py").write_text("")
    yield folder
    for module in (name, f"later_{name}"):
        sys.modules.pop(module, None)


@pytest.fixture(autouse=True)
def _quiet():
    logging.getLogger("flwr").setLevel(logging.ERROR)


def test_the_command_prepares_a_node_of_the_ready_app(tmp_path, monkeypatch):
    """A client of the same node config then computes nothing: its app's training would fail."""
    app, kept = tmp_path / "app", tmp_path / "kept"
    shutil.copytree(READY, app, ignore=shutil.ignore_patterns("__pycache__"))
    config = {"partition-id": 1, "num-partitions": 4, keys.REQUIREMENTS_FOLDER: str(kept)}
    text = f'partition-id=1 num-partitions=4 {keys.REQUIREMENTS_FOLDER}="{kept}"'
    try:
        command = ["maxfl", "flower", "prepare", str(app), "--node-config", text]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        names = sorted(path.name.rpartition("-")[0] for path in kept.glob("maxfl-*.json"))
        assert names == [keys.REQUIREMENT, keys.TEST_REQUIREMENT]
        monkeypatch.syspath_prepend(str(app))
        task = importlib.import_module("federation.task")
        monkeypatch.setattr(task, "train", None)
        prepare(app, Node(config))
        with pytest.raises(InputError, match=r"requirement function .* raised TypeError"):
            prepare(app, Node(config | {"partition-id": 2}))
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "federation"]:
            del sys.modules[name]


def test_an_app_whose_handlers_judge_needs_the_initial_model(own_app, tmp_path):
    """Also behind secure aggregation, which no server asks for here; 8 · ¾² = 4.5."""
    config = {keys.REQUIREMENTS_FOLDER: str(tmp_path / "kept")}
    with pytest.raises(InputError, match="--model FILE"):
        prepare(own_app, Node(config))
    save_file({"w": np.array([4.0, 4.0])}, tmp_path / "start.safetensors")
    node = Node(config, {"solo.rate": 0.25}, {"lr": 1.0})
    prepare(own_app, node, tmp_path / "start.safetensors")
    (path,) = (tmp_path / "kept").glob("maxfl-*.json")
    assert '"requirement": 4.5,' in path.read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda node, _: node._replace(node_config={}), "would not be kept: .*maxfl-requirements"),
        (lambda node, _: node._replace(run_config={"step": 1}), "no such setting.*'steps'"),
        (lambda node, app: (app / "pyproject.toml").unlink() or node, "holds no Flower app"),
        (lambda node, app: (app / "pyproject.toml").write_text("a = 1") and node, "not that of"),
        (
            lambda node, app: (
                (app / "pyproject.toml").write_text(PYPROJECT.format(name="no_such")) and node
            ),
            "can't be loaded: ModuleNotFoundError",
        ),
    ],
)
def test_what_can_not_be_prepared_is_told(own_app, tmp_path, change, words):
    node = change(Node({keys.REQUIREMENTS_FOLDER: str(tmp_path / "kept")}), own_app)
    with pytest.raises(InputError, match=words):
        prepare(own_app, node)


def test_a_model_that_can_not_be_read_is_told(own_app, tmp_path):
    (tmp_path / "broken").write_text("no tensors")
    for name in ("broken", "nowhere"):
        with pytest.raises(InputError, match=f"--model .*{name} can't be read"):
            prepare(own_app, Node({}), tmp_path / name)


def asked_to_prepare(mods):
    """A client that a server asks to prepare: its reply."""
    app = ClientApp(mods=mods)

    @app.train()
    def train(message, context):  # noqa: ARG001
        return Message(RecordDict({"secret": ConfigRecord({"a": 1})}), reply_to=message)

    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    content = RecordDict({"config": ConfigRecord({keys.PREPARE: True})})
    return app(Message(content, dst_node_id=1, message_type="train"), context)


@pytest.mark.usefixtures("flower_identity")
def test_a_server_that_asks_for_it_learns_nothing():
    assert not asked_to_prepare([secure_mod]).content, "what an app replies would be in the clear"
    with pytest.raises(InputError, match="would not be kept"):
        asked_to_prepare([appeal_mod(lambda *_: 1.0, lambda *_: 2.0)])
    with pytest.raises(InputError, match="is a number: there is nothing to prepare"):
        asked_to_prepare([secure_mod, appeal_mod(lambda *_: 1.0, 2.0)])
