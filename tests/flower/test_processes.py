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

from maxfl.flower.certificates import make_certificates
from maxfl.flower.local_deployment import deployed
from maxfl.utils.tensors import to_named

pytestmark = pytest.mark.extras

APP, PARITY = (
    Path(__file__).parents[1] / "support" / name for name in ("flower_app", "flower_parity")
)
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
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in text and int(process.name) != os.getpid():
            found.append(text[:200])
    return found


def test_a_federation_survives_its_clients(tmp_path):
    """TLS and authentication; of seven clients two are honest to the end."""
    results = tmp_path / "results"
    with deployed(tmp_path / "flower") as deployment:
        for behaviour in ("", "", "nan", "decline", "raise", "hang"):
            deployment.start_node({"behaviour": behaviour})
        victim = deployment.start_node({"behaviour": "slow"})
        stranger = deployment.start_node({}, register=False)
        other = make_certificates(tmp_path / "other", "127.0.0.1").authority
        distrustful = deployment.start_node({}, authority=other)
        # In a fresh environment the first start of every app takes its time.
        settings = {"nodes": 7, "results": str(results), "timeout": 30, "rounds": 2}
        run = deployment.submit(APP, settings)
        # It has taken part in the first round, and its app is at work in the second.
        wait_for(lambda: victim.log.read_text().count("`flwr-clientapp`") == 2, 100)
        time.sleep(3)
        os.killpg(victim.process.pid, signal.SIGKILL)
        status = deployment.wait(run, 200)
        assert status == "finished:completed", deployment.log_of(run)
        assert "Failed to activate SuperNode" in stranger.log.read_text()
        assert "certificate verify failed" in distrustful.log.read_text()
    entry = summary_of(results)
    w = load_file(results / "model.safetensors")["w"]
    assert np.all((w > 0.3) & (w < 1)), "it learned from those who answered"
    log = (results / "rounds.log").read_text().splitlines()
    assert "4 of 7 participated, 2 failed, 1 rejected" in log[0], log
    events = [(e["round"], e["node"], e["kind"], e["why"]) for e in entry["events"]]
    whys = {(kind, why) for _, _, kind, why in events}
    assert ("rejected", "w has values that are not finite") in whys
    assert ("declined", "by its judging data, the model does not meet its requirement") in whys
    assert any(kind == "failed" and "no data here" in why for kind, why in whys), whys
    late = [{n for r, n, _, why in events if r == number and "no answer" in why}
            for number in (1, 2)]  # fmt: skip
    assert len(late[0]) == 1, "the one that hangs"
    assert len(late[1] - late[0]) == 1, "the one that was killed in the second round"
    wait_for(lambda: not processes_of(tmp_path), 10)


def test_the_same_model_as_the_simulation(tmp_path, monkeypatch):
    """Five rounds through Flower's processes, within 1e-5."""
    import maxfl

    monkeypatch.syspath_prepend(str(PARITY))
    from parity import setting

    history = maxfl.simulate(
        setting.federation(), setting.MODEL, maxfl.maxfl_auto(), setting.TRAINING,
        seed=setting.SEED, requirement=setting.REQUIREMENT,
        participation=maxfl.decline(start_round=setting.DECLINE_AFTER),
        server_schedule=setting.SCHEDULE,
    )  # fmt: skip
    with deployed(tmp_path / "flower", tls=False) as deployment:
        for k in range(setting.CLIENTS):
            deployment.start_node({"partition-id": k})
        run = deployment.submit(PARITY, {"results": str(tmp_path / "results")})
        assert deployment.wait(run, 300) == "finished:completed", deployment.log_of(run)
    model = load_file(tmp_path / "results" / "model.safetensors")
    for name, w in to_named(history.params).items():
        np.testing.assert_allclose(model[name], w[0], atol=1e-5)
    participated = np.asarray(history.cohorts.participated)[0].sum(1)
    assert 0 < participated[-1] < setting.CLIENTS, "some decline, or this shows less"
    answers = summary_of(tmp_path / "results")["answers"]
    assert answers["participated"] == participated.sum()


def test_sums_alone_through_real_processes(tmp_path):
    """Secure aggregation with noise, without TLS."""
    results = tmp_path / "results"
    with deployed(tmp_path / "flower", tls=False) as deployment:
        for behaviour in ("", "", "decline"):
            deployment.start_node({"behaviour": behaviour})
        settings = {"results": str(results), "secure": True, "rounds": 2}
        run = deployment.submit(APP, settings)
        assert deployment.wait(run, 200) == "finished:completed", deployment.log_of(run)
    entry = summary_of(results)
    w = load_file(results / "model.safetensors")["w"]
    assert np.all((w > 0.3) & (w < 1.5))
    assert entry["privacy"]["epsilon"] > 0
    assert entry["answers"]["sampled"] == 6
    assert entry["events"] == []  # who declined is not known


def test_the_demo_stopped_and_taken_up(tmp_path):
    app = tmp_path / "app"
    subprocess.run([*COMMAND, "flower", "new", app], check=True)
    demo = [*COMMAND, "flower", "demo", app, "--nodes", "2", "--rounds", "2", "--out",
            tmp_path / "out"]  # fmt: skip
    first = subprocess.Popen(demo, stdout=subprocess.DEVNULL)
    log = tmp_path / "out/federation/rounds.log"
    wait_for(lambda: log.exists() or first.poll() is not None, 120)
    first.terminate()
    first.wait(60)
    assert first.returncode == 143
    assert "round 1: GM-Appeal" in log.read_text()
    wait_for(lambda: not processes_of(tmp_path), 10)
    again = subprocess.run(demo, capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert "or add --resume" in again.stderr
    done = subprocess.run([*demo, "--resume"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "round 2: GM-Appeal" in done.stdout
    assert "round 1:" not in done.stdout
    page = (tmp_path / "out/federation/report/report.html").read_text()
    assert "a federation on Flower" in page
    assert summary_of(tmp_path / "out/federation")["answers"]["sampled"] == 4
    wait_for(lambda: not processes_of(tmp_path), 10)
