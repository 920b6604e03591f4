"""Models of past rounds, and going back to one of them."""

import json

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from safetensors.numpy import load_file
from typer.testing import CliRunner

from maxfl.cli.flower import app
from maxfl.flower import Privacy
from maxfl.flower.monitoring.rollback import roll_back
from maxfl.flower.privacy import epsilon
from maxfl.runs.watch import read_status
from maxfl.utils.errors import InputError
from support.flower_nodes import START
from support.flower_runs import federation, killed_at_write, run, same_results, stopped

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def kept(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_models_of_the_last_rounds_stay(tmp_path):
    nodes = federation()
    stopped(nodes, tmp_path / "run", 7, keep=2)  # in the fourth round
    assert kept(tmp_path / "run") == ["round-0002.safetensors", "round-0003.safetensors"]
    last, after_3 = (
        load_file(tmp_path / "run" / name)
        for name in ("checkpoint.safetensors", "checkpoints/round-0003.safetensors")
    )
    np.testing.assert_array_equal(last["w"], after_3["w"])
    run(tmp_path / "run", nodes, keep=2, resume=True)
    assert kept(tmp_path / "run") == ["round-0003.safetensors", "round-0004.safetensors"]
    run(tmp_path / "none", federation())
    assert not (tmp_path / "none" / "checkpoints").exists()


@pytest.mark.parametrize("finished", [True, False])
def test_back_and_on_again_ends_with_the_same_bits(tmp_path, finished):
    options = {"keep": 3, "decline_after": 1, "collect_losses": True}
    run(tmp_path / "whole", federation(), **options)
    nodes = federation()
    if finished:
        run(tmp_path / "run", nodes, **options)
    else:
        stopped(nodes, tmp_path / "run", 8, **options)  # in the evaluation of the fourth round
    said = CliRunner().invoke(app, ["rollback", str(tmp_path / "run"), "--to", "2"])
    assert "back from round" in said.output
    seen = read_status(tmp_path / "run")
    assert (seen.done, seen.total, seen.finished) == (2, 4, False)
    assert seen.stopped == f"taken back from round {4 if finished else 3} to round 2"
    log = (tmp_path / "run" / "rounds.log").read_text().splitlines()
    assert [line.split(":")[0] for line in log if line.startswith("round")] == [
        "round 1",
        "round 2",
    ]
    assert kept(tmp_path / "run")[-1] == "round-0002.safetensors"
    run(tmp_path / "run", nodes, resume=True, **options)
    same_results(tmp_path / "run", tmp_path / "whole")
    assert (tmp_path / "run" / "model-card.md").is_file()


def test_a_round_that_is_not_kept_is_refused_with_those_that_are(tmp_path):
    run(tmp_path / "run", federation(), keep=3)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.*")}
    with pytest.raises(InputError, match=r"has done 4 rounds.*those after rounds 2, 3 are kept"):
        roll_back(tmp_path / "run", 1)
    with pytest.raises(InputError, match="--to 4"):
        roll_back(tmp_path / "run", 4)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.*")} == before
    run(tmp_path / "none", federation())
    with pytest.raises(InputError, match="none are kept"):
        roll_back(tmp_path / "none", 1)
    with pytest.raises(InputError, match="holds no federation"):
        roll_back(tmp_path, 1)


@pytest.mark.parametrize("call", range(1, 8))
def test_killed_on_the_way_back_it_stands_here_or_there(tmp_path, monkeypatch, call):
    """Whichever file is the last that is written, the run goes on to the same end."""
    run(tmp_path / "run", federation(), keep=3)
    whole = load_file(tmp_path / "run" / "model.safetensors")
    killed_at_write(monkeypatch, call, lambda: roll_back(tmp_path / "run", 2))
    run(tmp_path / "run", federation(), keep=3, resume=True)
    again = load_file(tmp_path / "run" / "model.safetensors")
    for name in START:
        np.testing.assert_array_equal(again[name], whole[name])
    assert kept(tmp_path / "run")[-1] == "round-0004.safetensors"
    assert (tmp_path / "run" / "model-card.md").is_file()


def test_what_was_given_away_stays_counted(tmp_path):
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    privacy = Privacy(clip=1.0, noise_multiplier=1.0)
    options = {"privacy": privacy, "scale": 0.5, "fraction_evaluate": 0.0, "keep": 4}
    run(tmp_path / "run", federation(), rounds=3, **options)
    roll_back(tmp_path / "run", 1)
    run(tmp_path / "run", federation(), rounds=3, resume=True, **options)
    (entry,) = json.loads((tmp_path / "run" / "summary.json").read_text())["configurations"]
    assert entry["privacy"]["rounds"] == 5
    assert entry["privacy"]["epsilon"] == epsilon(privacy, 1.0, 5)
