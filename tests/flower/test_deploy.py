"""The commands of deploy/compose.yaml, as processes on this machine."""

import json
import shutil
import subprocess
import sys
import time

import pytest

pytest.importorskip("flwr", reason="Flower not installed")
pytest.importorskip("yaml", reason="PyYAML not installed")

from maxfl.flower.local_deployment import HOST, Deployment, free_port
from support.commands import ROOT
from support.compose import DEPLOY, read_compose

pytestmark = [
    pytest.mark.extras,
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl not installed"),
    pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="ssh-keygen not installed"),
]
APP = ROOT / "src/maxfl/flower/app_template"


class Containers:
    """The services of the compose file, each as a process that has what is mounted into it."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.deployment = Deployment(folder / "flower", tls=False)
        for name in ("state", "results"):
            (folder / name).mkdir()
        subprocess.run(["sh", DEPLOY / "make_secrets.sh", "superlink", "2"], cwd=folder,
                       check=True, capture_output=True)  # fmt: skip
        settings = self.on_this_machine((DEPLOY / "flwr-config.toml").read_text(), "app", 0)
        (folder / "flower/home/config.toml").write_text(settings)

    def on_this_machine(self, word, service, node_port):
        """A word with this machine's paths and ports in the place of a container's own."""
        secrets = self.folder / "secrets"
        own_key = secrets / service.replace("supernode", "node")
        places = {
            "superlink:9093": f"{HOST}:{self.port}", "0.0.0.0": HOST, "9093": str(self.port),
            "9094": str(node_port), "/run/secrets/node-key": str(own_key),
            "/run/secrets": str(secrets), "/opt/maxfl/healthy.py": str(DEPLOY / "healthy.py"),
            "/state": str(self.folder / "state"), "/results": str(self.folder / "results"),
        }  # fmt: skip
        for inside, here in places.items():
            word = word.replace(inside, here)
        return str(APP) if word == "/app" else word

    def start(self, name, **variables):
        """Start a service by its command; return its process, and what asks for its health."""
        service, node_port = read_compose(**variables)["services"][name], free_port()
        program, *arguments = (
            self.on_this_machine(word, name, node_port) for word in service["command"]
        )
        _, _, *check = service.get("healthcheck", {}).get("test", ["", ""])
        check = [self.on_this_machine(word, name, node_port) for word in check]
        return self.deployment.start(name, program, *arguments), [sys.executable, *check]

    def run(self, name, seconds, **variables):
        """Run a service to its end; return what it printed."""
        started, _ = self.start(name, **variables)
        assert started.process.wait(seconds) == 0, started.log.read_text()
        return started.log.read_text()


def is_healthy(check):
    return subprocess.run(check, capture_output=True, check=False).returncode == 0


def wait_until_healthy(started, check, seconds=60):
    until = time.monotonic() + seconds
    while not is_healthy(check):
        assert started.process.poll() is None, started.log.read_text()
        assert time.monotonic() < until, started.log.read_text()
        time.sleep(0.5)


def test_the_commands_of_the_containers_train_a_model(tmp_path):
    containers = Containers(tmp_path)
    try:
        link, check = containers.start("superlink")
        wait_until_healthy(link, check)
        in_plain = [*check[:2], f"http://{HOST}:{containers.port}/health"]
        assert not is_healthy(in_plain), "it answers without TLS"
        for k in range(2):
            containers.run("register", 60, NODE=f"node-{k}")
        for k in range(2):
            wait_until_healthy(*containers.start(f"supernode-{k}"))
        log = containers.run("app", 200, ROUNDS="2", RUN="second")
        assert "round 2: GM-Appeal" in log, log
        summary = json.loads((tmp_path / "results/second/summary.json").read_text())
        assert summary["configurations"][0]["answers"]["sampled"] == 4
        assert (tmp_path / "state/superlink.db").is_file()
    finally:
        containers.deployment.stop()
