"""``maxfl demo`` on few clients and rounds."""

import pytest

from support.commands import small


@pytest.mark.slow
def test_demo_draws_its_figure(tmp_path, maxfl):
    out = tmp_path / "demo"
    text = maxfl("demo", "--out", out, *small("training.rounds=6"))
    assert "FedAvg" in text
    assert "MaxFL auto" in text
    assert "over 5 seeds" in text
    assert f"Results: {out}; look at them: maxfl report {out}" in text
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
