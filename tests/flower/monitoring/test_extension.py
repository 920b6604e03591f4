"""A run that goes on beyond the rounds that it was begun with."""

import json

import pyarrow.parquet as pq
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.core import schedules
from maxfl.flower import Privacy
from maxfl.flower.privacy import epsilon
from maxfl.utils.errors import InputError
from support.flower_runs import federation, killed_at_write, run, same_results, stopped

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]
SHRINKS = schedules.exponential(end=0.18, rounds=3)
"""What is the default in a run of three rounds."""


def test_a_finished_run_goes_on_for_more_rounds(tmp_path):
    run(tmp_path / "whole", federation(), rounds=5, decline_after=1, server_schedule=SHRINKS)
    run(tmp_path / "run", federation(), rounds=3, decline_after=1)
    run(tmp_path / "run", federation(), rounds=5, decline_after=1, resume=True)
    same_results(tmp_path / "run", tmp_path / "whole")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["rounds"] == 5
    config = json.loads((tmp_path / "run" / "experiment.json").read_text())["config"]
    assert (config["training"]["rounds"], config["schedule"]["server_rounds"]) == (5, 3)
    assert "5 rounds on Flower" in (tmp_path / "run" / "model-card.md").read_text()
    # It is a run of five rounds now.
    again = run(tmp_path / "run", federation(), rounds=5, decline_after=1, resume=True)
    assert not again.train_metrics_clientapp
    with pytest.raises(InputError, match=r"config\.training\.rounds"):
        run(tmp_path / "run", federation(), rounds=3, decline_after=1, resume=True)


def test_so_does_one_that_was_stopped_and_one_that_was_stopped_again(tmp_path):
    run(tmp_path / "whole", federation(), rounds=5, server_schedule=SHRINKS)
    nodes = federation()
    stopped(nodes, tmp_path / "run", 4, rounds=3)
    stopped(nodes, tmp_path / "run", 4, rounds=5, resume=True)
    run(tmp_path / "run", nodes, rounds=5, resume=True)
    same_results(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("call", range(1, 6))
def test_killed_on_the_way_it_can_be_extended_or_left_as_it_was(tmp_path, monkeypatch, call):
    run(tmp_path / "whole", federation(), rounds=4, server_schedule=SHRINKS)
    run(tmp_path / "run", federation(), rounds=3)
    before = pq.read_table(tmp_path / "run" / "metrics.parquet")
    writes = killed_at_write(
        monkeypatch, call, lambda: run(tmp_path / "run", federation(), rounds=4, resume=True)
    )
    if writes[-1] in ("begun.json", "checkpoint.safetensors", "experiment.json"):
        run(tmp_path / "run", federation(), rounds=3, resume=True)
        assert pq.read_table(tmp_path / "run" / "metrics.parquet").equals(before)
        assert (tmp_path / "run" / "model-card.md").is_file()
    run(tmp_path / "run", federation(), rounds=4, resume=True)
    same_results(tmp_path / "run", tmp_path / "whole")


def test_epsilon_is_carried_over(tmp_path):
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    privacy = Privacy(clip=1.0, noise_multiplier=1.0)
    options = {"privacy": privacy, "scale": 0.5, "fraction_evaluate": 0.0}
    run(tmp_path / "run", federation(), rounds=2, **options)
    run(tmp_path / "run", federation(), rounds=3, resume=True, **options)
    (entry,) = json.loads((tmp_path / "run" / "summary.json").read_text())["configurations"]
    assert entry["privacy"]["epsilon"] == epsilon(privacy, 1.0, 3)


def test_a_run_without_its_rounds_can_not_go_on(tmp_path):
    run(tmp_path / "run", federation(), rounds=2)
    summary = tmp_path / "run" / "summary.json"
    content = json.loads(summary.read_text())
    del content["files"], content["digest"]  # as of a version that wrote none
    summary.write_text(json.dumps(content))
    (tmp_path / "run" / "rounds.jsonl").unlink()
    with pytest.raises(InputError, match="did not keep its rounds"):
        run(tmp_path / "run", federation(), rounds=3, resume=True)
    assert summary.is_file()
