"""The scripts of examples/ run, and what they print is as they say."""

import re
import runpy

import jax
import numpy as np
import pytest

from support.commands import ROOT

pytestmark = pytest.mark.slow


def test_hospitals_that_did_not_train_want_maxfls_model_rather(capsys):
    runpy.run_path(str(ROOT / "examples/regression_hospitals.py"), run_name="__main__")
    *_, paired = capsys.readouterr().out.splitlines()
    differences = re.findall(r"(-?[\d.]+) ± ([\d.]+)", paired)
    assert len(differences) == 3, "at each learning rate"
    assert all(float(mean) > float(half) for mean, half in differences)


def test_adapters_are_trained_of_a_model_that_was_trained_before():
    example = runpy.run_path(str(ROOT / "examples/lora_transformer.py"))
    history = example["main"](width=8, depth=1, base_rounds=2, rounds=2, steps=2)
    assert np.isfinite(history.evaluation.test_loss).all()
    names = {path[-1].name for path, _ in jax.tree_util.tree_leaves_with_path(history.params)}
    assert names == {"A", "B"}


def numbers(name, capsys, monkeypatch, *arguments):
    """Run an example and return what it prints: a list of numbers for each line."""
    monkeypatch.setattr("sys.argv", [name, *map(str, arguments)])
    runpy.run_path(str(ROOT / f"examples/{name}.py"), run_name="__main__")
    lines = capsys.readouterr().out.strip().splitlines()
    return [[float(n) for n in re.findall(r"\d+(?:\.\d+)?", line)] for line in lines]


def test_maxfl_wins_clients_that_fedavg_loses(capsys, monkeypatch):
    fedavg, maxfl = numbers("quickstart", capsys, monkeypatch)
    assert fedavg[-1] < 0.2 < 0.4 < maxfl[-1]


def test_a_requirement_of_ones_own(capsys, monkeypatch):
    ((_, satisfied),) = numbers("own_requirement", capsys, monkeypatch)
    assert 50 < satisfied < 100


def test_a_method_of_ones_own_lifts_the_worst_off(capsys, monkeypatch):
    losses = [line[-1] for line in numbers("own_method", capsys, monkeypatch)]
    assert losses == sorted(losses, reverse=True)


def test_three_groups_need_three_models(capsys, monkeypatch):
    shares = [line[-1] for line in numbers("portfolio", capsys, monkeypatch)]
    assert shares[0] < 10 < 40 < shares[1] < shares[2]


def test_a_sweep_becomes_a_figure(capsys, monkeypatch, tmp_path):
    rows = numbers("sweep_to_figure", capsys, monkeypatch, tmp_path / "figure.png")
    assert [line[0] for line in rows] == [0.1, 0.3, 1.0, 3.0]
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_a_run_goes_on_in_its_folder(capsys, monkeypatch, tmp_path):
    for _ in range(2):
        numbers("resume", capsys, monkeypatch, tmp_path / "run")
    assert (tmp_path / "run/history.parquet").is_file()


def test_a_federation_is_streamed_from_disk(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("maxfl.use_all_cores", lambda: None, raising=False)  # JAX runs already
    ((satisfied,),) = numbers("streaming", capsys, monkeypatch, tmp_path / "federation")
    assert satisfied > 20
