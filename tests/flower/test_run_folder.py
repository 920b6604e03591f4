"""A federation's folder: resumed, never overwritten."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from safetensors import safe_open
from safetensors.numpy import load_file
from safetensors.numpy import save as dump_tensors

from maxfl.flower import Privacy
from maxfl.flower.privacy import epsilon
from maxfl.runs.watch import read_status
from maxfl.utils.errors import InputError
from support.flower_nodes import START
from support.flower_runs import federation, run, stopped

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def test_a_stopped_run_goes_on_to_the_same_end(tmp_path):
    whole = run(tmp_path / "whole", federation(), decline_after=2, collect_losses=True)
    nodes = federation()
    # In the evaluation of the third round.
    stopped(nodes, tmp_path / "cut", 6, decline_after=2, collect_losses=True)
    seen = read_status(tmp_path / "cut")
    assert (seen.done, seen.total, seen.finished) == (2, 4, False)
    assert seen.stopped == "KeyboardInterrupt"
    with pytest.raises(InputError, match="add --resume"):
        run(tmp_path / "cut", nodes, decline_after=2, collect_losses=True)
    result = run(tmp_path / "cut", nodes, decline_after=2, collect_losses=True, resume=True)
    assert sorted(result.train_metrics_clientapp) == [3, 4]
    for name in START:
        np.testing.assert_array_equal(result.arrays[name].numpy(), whole.arrays[name].numpy())
    for name in ("metrics.parquet", "history.parquet", "rounds.parquet", "clients.parquet"):
        cut, uncut = (pq.read_table(tmp_path / folder / name) for folder in ("cut", "whole"))
        assert str(cut.to_pylist()) == str(uncut.to_pylist())  # NaN and all
    again = run(tmp_path / "cut", nodes, decline_after=2, collect_losses=True, resume=True)
    np.testing.assert_array_equal(again.arrays["w"].numpy(), whole.arrays["w"].numpy())
    assert not (tmp_path / "cut" / "checkpoint.safetensors").exists()
    assert read_status(tmp_path / "cut").finished


def test_another_experiment_is_not_overwritten(tmp_path):
    run(tmp_path / "run", federation())
    before = (tmp_path / "run" / "summary.json").read_bytes()
    with pytest.raises(InputError, match=r"config\.algorithm\.temperature"):
        run(tmp_path / "run", federation(), temperature=0.5, resume=True)
    assert (tmp_path / "run" / "summary.json").read_bytes() == before


def test_the_solver_goes_on_where_it_stopped(tmp_path):
    whole = run(tmp_path / "whole", federation(), rounds=5, decline_after=2)
    nodes = federation()
    stopped(nodes, tmp_path / "cut", 6, rounds=5, decline_after=2)
    again = run(tmp_path / "cut", nodes, rounds=5, decline_after=2, resume=True)
    for name in START:
        np.testing.assert_array_equal(again.arrays[name].numpy(), whole.arrays[name].numpy())
    solvers = [metrics_of(tmp_path / folder) for folder in ("cut", "whole")]
    assert solvers[0] == solvers[1]
    assert len(solvers[0]["scale"]) == 5
    assert len(set(solvers[0]["scale"])) > 2, "it moves, or this shows nothing"


def metrics_of(folder):
    """T_t and s_t as the results have them."""
    rows = pq.read_table(folder / "metrics.parquet").to_pylist()
    return {name: [row["value"] for row in rows if row["metric"] == name]
            for name in ("temperature", "scale")}  # fmt: skip


def test_a_checkpoint_of_a_version_without_a_solver_is_told(tmp_path):
    stopped(federation(), tmp_path / "run", 3)
    path = tmp_path / "run" / "checkpoint.safetensors"
    with safe_open(path, framework="numpy") as file:
        metadata = {name: text for name, text in file.metadata().items() if name != "solver"}
    path.write_bytes(dump_tensors(load_file(path), metadata))
    with pytest.raises(InputError, match="damaged or of another version"):
        run(tmp_path / "run", federation(), resume=True)


def test_a_damaged_checkpoint_is_told(tmp_path):
    stopped(federation(), tmp_path / "run", 3)
    path = tmp_path / "run" / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="damaged or of another version"):
        run(tmp_path / "run", federation(), resume=True)


def test_killed_before_the_results_were_written(tmp_path, monkeypatch):
    """After the last round, before the end: nothing is left to train, and nothing is lost."""
    whole = run(tmp_path / "whole", federation())

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("maxfl.flower.run_folder.FederationFolder.finish", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "cut", federation())
    result = run(tmp_path / "cut", federation(), resume=True)
    np.testing.assert_array_equal(result.arrays["w"].numpy(), whole.arrays["w"].numpy())
    model = load_file(tmp_path / "cut" / "model.safetensors")
    np.testing.assert_array_equal(model["w"], whole.arrays["w"].numpy())
    assert not list((tmp_path / "cut").glob("checkpoint*"))


def test_a_round_that_was_cut_off_is_paid_for(tmp_path):
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    privacy = Privacy(clip=1.0, noise_multiplier=1.0)
    nodes = federation()
    options = {"rounds": 3, "privacy": privacy, "scale": 0.5, "fraction_evaluate": 0.0}
    stopped(nodes, tmp_path / "run", 2, **options)
    run(tmp_path / "run", nodes, resume=True, **options)
    (entry,) = json.loads((tmp_path / "run" / "summary.json").read_text())["configurations"]
    assert entry["privacy"]["rounds"] == 4
    assert entry["privacy"]["epsilon"] == epsilon(privacy, 1.0, 4)


def test_the_log_is_that_of_the_rounds_that_count(tmp_path):
    nodes = federation()
    stopped(nodes, tmp_path / "run", 5)
    with (tmp_path / "run" / "checkpoint.jsonl").open("a") as file:
        file.write("[3, of a round that was cut off")
    run(tmp_path / "run", nodes, resume=True)
    lines = (tmp_path / "run" / "rounds.log").read_text().splitlines()
    assert [line.split(":")[0] for line in lines] == [f"round {r}" for r in (1, 2, 3, 4)]


def test_other_defences_are_another_experiment(tmp_path):
    run(tmp_path / "run", federation())
    with pytest.raises(InputError, match=r"config\.replies\.min_replies"):
        run(tmp_path / "run", federation(), min_replies=2, resume=True)
