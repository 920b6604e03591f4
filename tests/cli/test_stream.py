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
from maxfl.runs.configs.file import override, unused, validate
from maxfl.utils.errors import InputError

pytestmark = pytest.mark.processes

TOML = """
seed = 3
model.hidden = [5]
training.rounds = 3
training.cohort = 3
training.local_steps = 2
training.batch_size = 4
training.evaluate_every = 1
training.checkpoint_every = 1
requirement.steps = 3
[data]
source = "synthetic"
partition = "by-owner"
clients = 8
unseen = 3
synthetic_samples = 10
flipped_fraction = 0.3
flip = "shift"
"""
DRAWN = tomllib.loads(TOML)


@pytest.mark.parametrize("source", ["synthetic", "fashion-mnist-12k"])
def test_what_a_file_describes_is_what_is_written(tmp_path, source):
    raw = {"data": {"clients": 6, "unseen": 2, "samples": 10, "flipped_fraction": 0.5}}
    config = validate(DRAWN if source == "synthetic" else raw, "here")
    calls = []
    write_data(config, tmp_path / "written", lambda *progress: calls.append(progress))
    found, expected = open_federation(tmp_path / "written"), build_federation(config)
    for ours, theirs in zip(jax.tree.leaves(found[:5]), jax.tree.leaves(expected[:5]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    ours, theirs = found.metadata, expected.metadata
    assert (ours.title, ours.labels, ours.notes) == (theirs.title, theirs.labels, theirs.notes)
    np.testing.assert_array_equal(ours.flipped, theirs.flipped)
    np.testing.assert_array_equal(found.names, expected.names.astype(found.names.dtype))
    assert calls[-1] == (found.clients - 1, found.clients)
    assert [path.name for path in tmp_path.iterdir()] == ["written"], "what was drawn is gone"


def command(*arguments):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    if isinstance(done.exception, InputError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_written_and_trained_it_gives_the_model_of_memory(tmp_path):
    file, folder = tmp_path / "run.toml", tmp_path / "written"
    file.write_text(TOML)
    assert "11 clients, 8 of them seen, 110 samples" in command("data", "write", file, folder)
    settings = "data.source=disk", f"data.folder={folder}", "data.eval_clients=4"
    disk = [word for setting in settings for word in ("--set", setting)]
    memory, streamed = tmp_path / "memory", tmp_path / "disk"
    command("run", file, "--out", memory)
    output = command("run", file, *disk, "--out", streamed)
    assert "evaluated by 7 of 11 clients" in output
    ours, theirs = (load_file(run / "model.safetensors") for run in (streamed, memory))
    for name, leaf in theirs.items():
        np.testing.assert_array_equal(ours[name], leaf)
    assert {path.name for path in streamed.iterdir()} == {path.name for path in memory.iterdir()}
    clients = pq.read_table(streamed / "clients.parquet").to_pydict()
    evaluated = sorted(set(map(int, clients["name"])))
    assert len(evaluated) == 7
    assert evaluated != list(range(7)), "their numbers in the federation"
    metrics = pq.read_table(streamed / "metrics.parquet").to_pydict()
    responded = [v for v, m in zip(metrics["value"], metrics["metric"], strict=True)
             if m == "all_responded"]  # fmt: skip
    assert responded == [3, 3, 3]
    again = command("run", file, *disk, "--out", streamed, "--resume")
    assert "evaluated by 7 of 11 clients" in again
    command("sweep", file, *disk, "--over", "training.local_lr=[0.1, 0.2]", "--out", tmp_path / "s")
    assert len(list((tmp_path / "s/groups").iterdir())) == 2, "one after another"
    values = [e["values"] for e in json.loads((tmp_path / "s/summary.json").read_text())
              ["configurations"]]  # fmt: skip
    assert values == [{"training.local_lr": 0.1}, {"training.local_lr": 0.2}]


def test_what_does_not_go_with_disk_is_refused(tmp_path):
    config = validate(DRAWN, "here")
    write_data(config, tmp_path / "written", lambda *_: None)
    raw = override(override(DRAWN, "data.source", "disk"), "data.folder", str(tmp_path / "written"))
    with pytest.raises(InputError, match="go together"):
        validate(override(DRAWN, "data.source", "disk"), "here")
    with pytest.raises(InputError, match=r"is on disk already"):
        write_data(validate(raw, "here"), tmp_path / "two", lambda *_: None)
    for key, value, words in (
        ("participation.rule", "opt-out", r"participation\.max_candidates"),
        ("personalization.finetune_steps", 2, "finetune_steps = 0"),
        ("participation.max_candidates", 5, "max_candidates is for opt-out"),
        ("data.folder", str(tmp_path / "nowhere"), "holds no federation"),
    ):
        with pytest.raises(InputError, match=words):
            build([validate(override(raw, key, value), "here")])
    (note,) = unused(validate(raw, "here"))
    assert "is as it was written, whatever data.synthetic_samples" in note
    other = override(override(DRAWN, "data.eval_clients", 3), "participation.max_candidates", 5)
    notes = unused(validate(other, "here"))
    assert len([n for n in notes if "eval_clients" in n or "max_candidates" in n]) == 2


def test_fewer_in_parallel_is_the_same_run():
    """So that a run which ran out of memory can go on."""
    config = validate(DRAWN, "here")
    one, three = (build([config], max_parallel) for max_parallel in (1, 3))
    assert [t.session.spec.layout.parallel_clients for t in (one, three)] == [1, 3]
    assert one.describe() == three.describe()
