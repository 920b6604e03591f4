"""``maxfl portfolio``: one, two, three models, and how many are enough."""

import json

import pytest

from support.commands import small

FILE = "examples/opt-out.toml"


@pytest.mark.slow
def test_it_trains_portfolios_and_says_how_many_are_enough(tmp_path, maxfl):
    out = tmp_path / "many"
    options = ["--most", "2", "--seeds", "2", "--out", out, *small(leave_out=("seed",))]
    text = maxfl("portfolio", FILE, *options)
    assert "GM-Appeal by number of models, 2 seeds" in text
    assert "Enough: " in text
    assert "2 seeds tell little" in text
    assert (out / "report/report.html").is_file()
    again = maxfl("portfolio", FILE, *options, "--resume", "--json", "--share", "1.0")
    found = json.loads(again[again.index("{") :])
    assert [size["models"] for size in found["sizes"]] == [1, 2]
    assert found["seeds"] == [0, 1]
    reached = [size["models"] for size in found["sizes"] if size["gm_appeal"]["seen"][0] >= 1]
    assert found["enough"] == (reached[0] if reached else None)
    assert found["sizes"][1]["download_mib"] == 2 * found["sizes"][0]["download_mib"]


def test_mistakes_are_explained(tmp_path, maxfl):
    swept = tmp_path / "swept.toml"
    swept.write_text("[sweep]\nseed = [0, 1]\n")
    assert "makes a sweep of its own" in maxfl("portfolio", swept, code=2)
    chosen = maxfl("portfolio", FILE, "--set", "portfolio.models=3", code=2)
    assert "--most says how many" in chosen
    assert "two ways" in maxfl("portfolio", FILE, "--share", "0.9", "--gain", "0.1", code=2)
    assert "--most" in maxfl("portfolio", FILE, "--most", "1", code=2)
    many = ["--most", "9", "--out", tmp_path / "x", *small("data.clients=8", "training.cohort=2")]
    refused = maxfl("portfolio", FILE, *many, code=2)
    assert "has only" in refused
    assert "portfolio.models" in refused
