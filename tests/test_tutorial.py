"""The tutorial: its commands are run as they stand, and what it says of the outcome is so."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import ROOT
from support.pages import rows_of

PAGE = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent
METHODS = {"FedAvg": "fedavg", "MaxFL auto": "maxfl-auto"}


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The folder in which all commands of the page have been run."""
    place = tmp_path_factory.mktemp("tutorial")
    shutil.copytree(ROOT / "examples", place / "examples", ignore=lambda *_: ["notebooks"])
    (toml,) = blocks("toml")
    (place / "hospitals.toml").write_text(toml)
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    for commands in blocks("sh"):
        done = subprocess.run(
            ["bash", "-euc", commands], cwd=place, env={**os.environ, "PATH": path},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return place


@pytest.mark.slow
def test_the_tables_are_as_printed(place):
    first, need = blocks("text")
    assert (place / "hospitals.csv").read_text().startswith(first)
    assert (place / "need.csv").read_text() == need
    assert "2,714 of them" in PAGE
    assert len((place / "hospitals.csv").read_text().splitlines()) == 2715


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "heading"), [("all", "| | hospitals"), ("city", "| cities")])
def test_the_figures_are_those_of_the_sweeps(place, folder, heading):
    summary = json.loads((place / folder / "summary.json").read_text())["configurations"]
    for name, appeal, accuracy, preferred in rows_of("docs/tutorial.md", heading):
        runs = [e["seen"] for e in summary if e["values"]["algorithm.name"] == METHODS[name]]
        assert len(runs) == 10
        # Other machines round sums in another order.
        for printed, values, near in (
            (appeal, [run["gm_appeal"]["test"] for run in runs], 0.03),
            (accuracy, [100 * run["test_accuracy"] for run in runs], 1),
            (preferred, [100 * run["preferred_accuracy"]["judging"] for run in runs], 1),
        ):
            assert sum(values) / 10 == pytest.approx(float(printed.split(" ±")[0]), abs=near)


@pytest.mark.slow
def test_the_decision_follows(place):
    shares = {}
    with (place / "page/tables/clients.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = row["client"].split("-")[0], row["method"].split(",")[0]
            shares.setdefault(key, []).append(row["satisfied"] == "yes")
    found = {key: sum(flags) / len(flags) for key, flags in shares.items()}
    assert max(found["rural", name] for name in METHODS) < 0.1
    assert min(found["city", name] for name in METHODS) > 0.7
    assert found["rural", "FedAvg"] == pytest.approx(0.0, abs=0.04)
    assert found["rural", "MaxFL auto"] == pytest.approx(0.0, abs=0.04)
    assert found["city", "FedAvg"] == pytest.approx(0.78, abs=0.04)
    assert found["city", "MaxFL auto"] == pytest.approx(0.83, abs=0.04)


@pytest.mark.slow
def test_the_methods_are_compared_as_it_says(place):
    for folder in ("all", "city"):
        done = subprocess.run(
            [BIN / "maxfl", "compare", f"{folder}:maxfl-auto", f"{folder}:fedavg", "--json"],
            cwd=place, capture_output=True, text=True, check=True,
        )  # fmt: skip
        (compared,) = json.loads(done.stdout)["comparisons"]
        assert compared["same_clients_in_all_seeds"]
        appeal = compared["differences"][0]
        assert (appeal["measure"], appeal["clients"]) == ("gm_appeal", "seen")
        assert appeal["a_is"] == "not told apart"
        if folder == "all":
            printed = re.search(
                r"\+([\d.]+) with a 95 % interval from −([\d.]+) to \+(\d\.\d+)", PAGE
            )
            mean, low, high = map(float, printed.groups())
            assert appeal["difference"] == pytest.approx(mean, abs=0.03)
            assert appeal["low"] == pytest.approx(-low, abs=0.03)
            assert appeal["high"] == pytest.approx(high, abs=0.03)


@pytest.mark.slow
def test_what_they_gain(place):
    for folder, gain in (("all", 3), ("city", 5)):
        summary = json.loads((place / folder / "summary.json").read_text())["configurations"]
        assert not any(entry["stalled_from_round"] for entry in summary)
        ours = [e["seen"] for e in summary if e["values"]["algorithm.name"] == "maxfl-auto"]
        alone = sum(100 * run["solo_test_accuracy"] for run in ours) / 10
        assert alone == pytest.approx(81, abs=1)
        better = {
            "all": [run["preferred_accuracy"]["judging"] for run in ours],
            "city": [run["test_accuracy"] for run in ours],
        }[folder]
        assert 10 * sum(better) - alone == pytest.approx(gain, abs=1)
