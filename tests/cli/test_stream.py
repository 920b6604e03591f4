"""A federation on disk in the command: written, trained, swept, refused with words."""

import json
import tomllib

import jax
import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner

from maxfl.cli.app import app
from maxfl.core.federation_files import open_federation
from maxfl.runs.build import build, build_federation, write_data
from maxfl.runs.config_file import override, unused, validate
from maxfl.utils.errors import InputError

pytestmark = pytest.mark.processes

TOML = """
seed = 3
model.hidden = [5]
training = {rounds = 3, cohort = 3, local_steps = 2, batch_size = 4, evaluate_every = 1, block = 1}
requirement.steps = 3
[data]
source = "synthetic"
partition = "by-owner"
clients = 8
unseen = 3
synthetic_samples = 10
flipped = 0.3
flip = "shift"
"""
DRAWN = tomllib.loads(TOML)


@pytest.mark.parametrize("source", ["synthetic", "fashion-mnist-12k"])
def test_what_a_file_describes_is_what_is_written(tmp_path, source):
    raw = {"data": {"clients": 6, "unseen": 2, "samples": 10, "flipped": 0.5}}
    config = validate(DRAWN if source == "synthetic" else raw, "here")
    told = []
    write_data(config, tmp_path / "own", lambda *progress: told.append(progress))
    found, expected = open_federation(tmp_path / "own"), build_federation(config)
    for ours, theirs in zip(jax.tree.leaves(found[:5]), jax.tree.leaves(expected[:5]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    ours, theirs = found.about, expected.about
    assert (ours.title, ours.labels, ours.notes) == (theirs.title, theirs.labels, theirs.notes)
    np.testing.assert_array_equal(ours.flipped, theirs.flipped)
    np.testing.assert_array_equal(found.names, expected.names.astype(found.names.dtype))
    assert told[-1] == (found.clients - 1, found.clients)
    assert [path.name for path in tmp_path.iterdir()] == ["own"], "what was drawn is gone"


def command(*arguments):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    if isinstance(done.exception, InputError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_written_and_trained_it_gives_the_model_of_memory(tmp_path):
    file, folder = tmp_path / "run.toml", tmp_path / "own"
    file.write_text(TOML)
    assert "11 clients, 8 of them seen, 110 samples" in command("data", "write", file, folder)
    settings = "data.source=disk", f"data.folder={folder}", "data.panel=4"
    disk = [word for setting in settings for word in ("--set", setting)]
    here, there = tmp_path / "memory", tmp_path / "disk"
    command("run", file, "--out", here)
    shown = command("run", file, *disk, "--out", there)
    assert "judged by a panel of 7 of 11 clients" in shown
    ours, theirs = (load_file(own / "model.safetensors") for own in (there, here))
    for name, leaf in theirs.items():
        np.testing.assert_array_equal(ours[name], leaf)
    assert {path.name for path in there.iterdir()} == {path.name for path in here.iterdir()}
    clients = pq.read_table(there / "clients.parquet").to_pydict()
    judges = sorted(set(map(int, clients["name"])))
    assert len(judges) == 7
    assert judges != list(range(7)), "numbers in the federation, not in the panel"
    metrics = pq.read_table(there / "metrics.parquet").to_pydict()
    asked = [v for v, m in zip(metrics["value"], metrics["metric"], strict=True)
             if m == "survey_asked"]  # fmt: skip
    assert asked == [3, 3, 3]
    again = command("run", file, *disk, "--out", there, "--resume")
    assert "judged by a panel" in again
    command("sweep", file, *disk, "--over", "training.local_lr=[0.1, 0.2]", "--out", tmp_path / "s")
    assert len(list((tmp_path / "s/groups").iterdir())) == 2, "one after another"
    values = [e["values"] for e in json.loads((tmp_path / "s/summary.json").read_text())
              ["configurations"]]  # fmt: skip
    assert values == [{"training.local_lr": 0.1}, {"training.local_lr": 0.2}]


def test_what_does_not_go_with_disk_is_told(tmp_path):
    own = validate(DRAWN, "here")
    write_data(own, tmp_path / "own", lambda *_: None)
    raw = override(override(DRAWN, "data.source", "disk"), "data.folder", str(tmp_path / "own"))
    with pytest.raises(InputError, match="go together"):
        validate(override(DRAWN, "data.source", "disk"), "here")
    with pytest.raises(InputError, match=r"is on disk already"):
        write_data(validate(raw, "here"), tmp_path / "two", lambda *_: None)
    for key, value, words in (
        ("participation.rule", "opt-out", r"participation\.ask"),
        ("personal.tuning", 2, "tuning = 0"),
        ("participation.ask", 5, "ask is for opt-out"),
        ("data.folder", str(tmp_path / "nowhere"), "holds no federation"),
    ):
        with pytest.raises(InputError, match=words):
            build([validate(override(raw, key, value), "here")])
    (note,) = unused(validate(raw, "here"))
    assert "is as it was written, whatever data.synthetic_samples" in note
    other = override(override(DRAWN, "data.panel", 3), "participation.ask", 5)
    assert len([n for n in unused(validate(other, "here")) if "panel" in n or "ask" in n]) == 2


def test_fewer_at_once_is_the_same_run():
    """So that a run which ran out of memory can go on."""
    config = validate(DRAWN, "here")
    one, many = build([config], 1), build([config], 3)
    assert (one.spec.layout.clients_at_once, many.spec.layout.clients_at_once) == (1, 3)
    assert one.describe() == many.describe()
