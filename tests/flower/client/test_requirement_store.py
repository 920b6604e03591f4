"""What a node requires outlives a run, for the data and settings that it was computed from."""

import json
import logging
import os
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp

from maxfl.flower import MaxFL, RequirementStore, appeal_mod, keys
from maxfl.utils.errors import InputError
from support.flower_nodes import START, Nodes, arrays, make_app, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def context_of(folder, **config):
    named = {} if folder is None else {keys.REQUIREMENTS_FOLDER: str(folder)}
    return Context(
        run_id=1, node_id=1, node_config=named | config, state=RecordDict(), run_config={}
    )


@pytest.fixture
def log(caplog):
    """Lines that a client writes."""
    logger = logging.getLogger("flwr")
    caplog.set_level(logging.INFO, "flwr")
    logger.addHandler(caplog.handler)
    yield lambda: caplog.text
    logger.removeHandler(caplog.handler)


def asked(store, folder, value=0.1 + 0.2, **config):
    """What is returned, and how often it was computed."""
    calls = []

    def compute():
        calls.append(1)
        return value

    return store.get("maxfl-requirement", context_of(folder, **config), compute), len(calls)


def test_a_second_run_uses_what_the_first_computed(tmp_path):
    """Judging and test requirement, through the real strategy: new nodes, new state.

    Both nodes have one config and the same data, so one of them computes for both.
    """
    computed = []

    def requirement(name):
        return lambda *_: computed.append(name) or 2.0

    def run(data):
        keep = RequirementStore(lambda _: np.array(data), tmp_path / "kept")
        app = make_app(1.0, requirement("judging"), test=(lambda *_: 1.0, requirement("test")),
                       keep=keep)  # fmt: skip
        strategy = MaxFL()
        strategy.start(Nodes(app, app), arrays(START), num_rounds=2)
        return strategy.rounds[-1].evaluation.satisfied

    assert [run([1.0]), run([1.0])] == [2, 2]
    assert computed == ["judging", "test"]
    run([2.0])
    assert computed == ["judging", "test"] * 2
    run([1.0])
    assert computed == ["judging", "test"] * 2, "what was there before is used again"


def test_values_come_back_to_the_last_bit_and_the_log_says_why(tmp_path, log):
    store, other = (RequirementStore(lambda _, d=data: d) for data in ("a", "b"))
    assert asked(store, tmp_path) == (0.1 + 0.2, 1)
    assert f"is computed now: none is kept in {tmp_path}" in log()
    assert asked(store, tmp_path, value=5.0) == (0.1 + 0.2, 0)
    assert "was computed before" in log()
    assert asked(other, tmp_path, value=5.0) == (5.0, 1)
    assert "settings or node config are not those of the 1 kept in" in log()
    assert asked(store, tmp_path, value=6.0, **{"partition-id": 3}) == (6.0, 1)
    assert asked(store.with_settings("loss", 10), tmp_path, value=7.0) == (7.0, 1)


def test_without_a_folder_it_is_kept_for_the_run(log):
    calls = []
    app = make_app(1.0, lambda *_: calls.append(1) or 2.0, keep=RequirementStore(lambda _: "a"))
    train(MaxFL(), Nodes(app, app), rounds=2)
    assert len(calls) == 2
    assert 'names no folder, maxfl-requirements="..."' in log()


def damaged(path, content):
    text = path.read_text()
    path.write_text(content if isinstance(content, str) else content(text))


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", "null", lambda text: text.replace("0.3", "0.4"), lambda t: t[:-20],
     lambda text: json.dumps({"maxfl": "1", "of": json.loads(text)["of"], "requirement": 9.0})],
)  # fmt: skip
def test_a_damaged_file_is_computed_anew(tmp_path, log, content):
    store = RequirementStore(lambda _: "a")
    asked(store, tmp_path)
    (path,) = tmp_path.glob("maxfl-*.json")
    damaged(path, content)
    assert asked(store, tmp_path, value=0.5) == (0.5, 1)
    assert f"is computed now: {path} can't be used" in log()
    assert f"{path} is damaged" in log()
    assert asked(store, tmp_path, value=0.6) == (0.5, 0)


def test_files_are_for_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        asked(RequirementStore(lambda _: "a"), tmp_path / "made")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "made").iterdir()}
    assert modes == {0o600}


def test_what_is_not_finite_is_not_kept(tmp_path):
    keep = RequirementStore(lambda _: "a", tmp_path)
    for value in (np.nan, np.inf):
        with pytest.raises(InputError, match="came out as"):
            train(MaxFL(), Nodes(*[make_app(1.0, lambda *_, v=value: v, keep=keep)] * 2))
    assert not list(tmp_path.glob("maxfl-*"))


WORKER = """
import sys, time
from flwr.app import Context, RecordDict
from maxfl.flower import RequirementStore

def compute():
    with open(sys.argv[2], "a") as file:
        file.write("computed\\n")
    time.sleep(1.0)
    return 0.25

context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
print(RequirementStore(lambda _: "a", sys.argv[1]).get("maxfl-requirement", context, compute))
"""


@pytest.mark.processes
def test_of_two_processes_one_computes(tmp_path):
    calls = tmp_path / "calls"
    command = [sys.executable, "-c", WORKER, str(tmp_path / "kept"), str(calls)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate(timeout=60)[0].split()[-1] for process in both] == ["0.25"] * 2
    assert calls.read_text() == "computed\n"


@pytest.mark.processes
def test_a_killed_process_leaves_nothing_that_blocks(tmp_path):
    calls = tmp_path / "calls"
    command = [sys.executable, "-c", WORKER, str(tmp_path / "kept"), str(calls)]
    victim = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not calls.exists() and time.monotonic() < until:
        time.sleep(0.05)
    victim.kill()
    victim.wait()
    assert asked(RequirementStore(lambda _: "a"), tmp_path / "kept", value=1.0) == (1.0, 1)


def test_a_folder_that_can_not_be_used_is_told_before_anything_is_computed(tmp_path):
    (tmp_path / "file").write_text("")
    store = RequirementStore(lambda _: "a")
    with pytest.raises(InputError, match=r"can't be used: .*maxfl-requirements"):
        asked(store, tmp_path / "file" / "kept")
    with pytest.raises(InputError, match="expected an absolute path"):
        asked(store, "kept")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RequirementStore("digest"), "expected a function of the context"),
        (lambda: appeal_mod(lambda *_: 1.0, 1.0, keep="folder"), "expected RequirementStore"),
    ],
)
def test_bad_arguments_are_told(make, words):
    with pytest.raises(InputError, match=words):
        ClientApp(mods=[make()])
