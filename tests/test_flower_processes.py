"""Real Flower processes on loopback: TLS, authentication, and clients that fail in every way."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")
pytest.importorskip("dp_accounting", reason="dp-accounting not installed")

from safetensors.numpy import load_file

from maxfl.flower.credentials import make_certificates
from maxfl.flower.deployment import deployed

APP = Path(__file__).with_name("flower_app")
COMMAND = [sys.executable, "-c", "from maxfl.cli import main; main()"]


def summary_of(folder):
    summary = json.loads((folder / "summary.json").read_text())
    return summary["configurations"][0]


def wait_for(condition, limit):
    until = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.2)


def processes_of(folder):
    """Processes whose command line or environment names a folder."""
    found = []
    for own in Path("/proc").glob("[0-9]*"):
        try:
            text = (own / "cmdline").read_bytes() + (own / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in text and int(own.name) != os.getpid():
            found.append(text[:200])
    return found


def test_a_federation_survives_its_clients(tmp_path):
    """TLS and authentication; of seven clients two are honest."""
    results = tmp_path / "results"
    with deployed(tmp_path / "flower") as here:
        for behaviour in ("", "", "nan", "decline", "raise", "hang"):
            here.start_node({"behaviour": behaviour})
        victim = here.start_node({"behaviour": "hang"})
        stranger = here.start_node({}, register=False)
        other = make_certificates(tmp_path / "other", "127.0.0.1").authority
        distrustful = here.start_node({}, authority=other)
        run = here.submit(APP, {"nodes": 7, "results": str(results), "timeout": 20})
        # Its app has been started for the first round: now it is in the middle of it.
        wait_for(lambda: "flwr-clientapp" in victim.log.read_text(), 60)
        os.killpg(victim.process.pid, signal.SIGKILL)
        status = here.wait(run, 200)
        assert status == "finished:completed", here.log_of(run)
        assert "Failed to activate SuperNode" in stranger.log.read_text()
        assert "certificate verify failed" in distrustful.log.read_text()
    entry = summary_of(results)
    w = load_file(results / "model.safetensors")["w"]
    assert np.all((w > 0.3) & (w < 1)), "it learned from the two"
    answers = entry["answers"]
    assert "of 7 took part" in (results / "rounds.log").read_text().splitlines()[0]
    assert answers["took_part"] >= 6
    assert answers["rejected"] >= 2  # NaN, whenever it was asked
    assert answers["declined"] >= 1  # after the first round
    whys = {(e["kind"], e["why"]) for e in entry["events"]}
    assert ("rejected", "w has values that are not finite") in whys
    assert ("declined", "the model does not meet this client's requirement") in whys
    assert any(kind == "failed" and "no data here" in why for kind, why in whys), whys
    assert any(kind == "failed" and "no answer" in why for kind, why in whys), whys
    wait_for(lambda: not processes_of(tmp_path), 10)


def test_sums_alone_through_real_processes(tmp_path):
    """Secure aggregation with noise, without TLS."""
    results = tmp_path / "results"
    with deployed(tmp_path / "flower", tls=False) as here:
        for behaviour in ("", "", "decline"):
            here.start_node({"behaviour": behaviour})
        settings = {"results": str(results), "secure": True, "rounds": 2}
        run = here.submit(APP, settings)
        assert here.wait(run, 200) == "finished:completed", here.log_of(run)
    entry = summary_of(results)
    w = load_file(results / "model.safetensors")["w"]
    assert np.all((w > 0.3) & (w < 1.5))
    assert entry["privacy"]["epsilon"] > 0
    assert entry["answers"]["asked"] == 6
    assert entry["events"] == []  # who declined is not known


def test_the_demo_stopped_and_taken_up(tmp_path):
    app = tmp_path / "app"
    subprocess.run([*COMMAND, "flower", "new", app], check=True)
    settings = app / "pyproject.toml"
    text = settings.read_text().replace("decline-after = 4", "decline-after = 1")
    settings.write_text(text)
    demo = [*COMMAND, "flower", "demo", app, "--nodes", "2", "--rounds", "2", "--out",
            tmp_path / "out"]  # fmt: skip
    first = subprocess.Popen(demo, stdout=subprocess.PIPE, text=True)
    wait_for((tmp_path / "out/federation/rounds.log").exists, 120)
    first.terminate()
    first.communicate(timeout=60)
    assert first.returncode == 143
    assert "round 1: GM-Appeal" in (tmp_path / "out/federation/rounds.log").read_text()
    wait_for(lambda: not processes_of(tmp_path), 10)
    again = subprocess.run(demo, capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert "go on with --resume" in again.stderr
    done = subprocess.run([*demo, "--resume"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "round 2: GM-Appeal" in done.stdout
    assert "round 1:" not in done.stdout
    page = (tmp_path / "out/federation/report/report.html").read_text()
    assert "Fashion-MNIST, 40 images a client" in page
    assert summary_of(tmp_path / "out/federation")["answers"]["asked"] == 4
    wait_for(lambda: not processes_of(tmp_path), 10)
