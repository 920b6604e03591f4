"""A federation of real Flower processes on this machine: to try, to test, to show.

A SuperLink and SuperNodes on loopback, with TLS and authenticated nodes unless asked otherwise.
Everything they write is in one folder, and none of them outlives the ``with`` block.
"""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from maxfl.flower.certificates import make_certificates, make_node_key
from maxfl.utils.errors import InputError

HOST = "127.0.0.1"
CONNECTION = "here"
ANSWER_SECONDS = 60.0
"""Time that a process has to start, or to answer a question."""
STOP_SECONDS = 10.0
"""Time that a process has to end by itself."""


class LoggedProcess(NamedTuple):
    """A process and the file that it logs to."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def last_lines(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])


class Deployment:
    """A SuperLink and its SuperNodes.

    Attributes:
        folder: Where everything is that they write.
        tls: Whether they talk by TLS, and nodes are authenticated.
        port: Of the SuperLink.
        nodes: The processes of the SuperNodes.
    """

    def __init__(self, folder: Path, *, tls: bool) -> None:
        self.folder, self.tls = folder, tls
        self.port = free_port()
        self.nodes: list[LoggedProcess] = []
        self._started: list[LoggedProcess] = []
        for name in ("home", "logs", "keys"):
            (folder / name).mkdir(parents=True)
        self._certificates = make_certificates(folder / "certificates", HOST) if tls else None

    @property
    def address(self) -> str:
        """Address of the SuperLink."""
        return f"{HOST}:{self.port}"

    def start(self, name: str, program: str, *arguments: Any) -> LoggedProcess:
        """Start one of Flower's programs, which is ended with all others."""
        log = self.folder / "logs" / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [_program(program), *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=self._environment(),
                start_new_session=True,  # Ctrl-C is for us, who then end it in order
            )  # fmt: skip
        self._started.append(LoggedProcess(process, log))
        return self._started[-1]

    def start_superlink(self) -> None:
        """Start the server's process and wait until it answers."""
        certificates = self._certificates
        if certificates is None:
            security, trust = ["--insecure"], "insecure = true"
        else:
            authority, certificate, key = map(str, certificates)
            security = ["--ssl-ca-certfile", authority, "--ssl-certfile", certificate,
                        "--ssl-keyfile", key, "--enable-supernode-auth"]  # fmt: skip
            trust = f'root-certificates = "{authority}"'
        link = self.start(
            "superlink", "flower-superlink", *security, "--host", HOST, "--port", self.port,
            "--disable-runtime-dependency-installation",
        )  # fmt: skip
        lines = [f"[superlink.{CONNECTION}]", f'address = "{self.address}"', trust]
        (self.folder / "home" / "config.toml").write_text("\n".join(lines) + "\n")
        until = time.monotonic() + ANSWER_SECONDS
        while not self._answers():
            _check_alive(link, "the SuperLink")
            if time.monotonic() > until:
                raise InputError(f"the SuperLink does not answer:\n{link.last_lines}")
            time.sleep(0.2)

    def start_node(
        self, config: Mapping[str, Any], *, register: bool = True, authority: Path | None = None
    ) -> LoggedProcess:
        """Start a client's process.

        Args:
            config: Its node config.
            register: Whether its key is registered with the SuperLink; if not, it must stay out.
            authority: The certificate that it trusts, by default that of the SuperLink.
        """
        number = len(self.nodes)
        security: list[Any] = ["--insecure"]
        if self._certificates is not None:
            key = make_node_key(self.folder / "keys", f"node-{number}")
            if register:
                self._flwr("supernode", "register", key.public, CONNECTION)
            trusted = authority or self._certificates.authority
            security = ["--root-certificates", trusted, "--auth-supernode-private-key", key.private]
        words = " ".join(f"{k}={json.dumps(v)}" for k, v in config.items())
        node = self.start(
            f"node-{number}", "flower-supernode", *security, "--superlink", self.address,
            "--port", free_port(), "--node-config", words,
        )  # fmt: skip
        self.nodes.append(node)
        return node

    def submit(self, app: Path, config: Mapping[str, Any]) -> int:
        """Ask the SuperLink to run an app; return the run's number."""
        words = " ".join(f"{k}={_toml(v)}" for k, v in config.items())
        arguments = ["run", app, CONNECTION, "--format", "json"]
        output = self._flwr(*arguments, *(["--run-config", words] if words else []))
        answer = _parse_json(output)
        if not answer.get("success"):
            raise InputError(f"Flower does not run {app}:\n{output}")
        return int(answer["run-id"])

    def status(self, run: int) -> str:
        """Return how a run is, as Flower says: "running", "finished:completed", ..."""
        output = self._flwr("list", CONNECTION, "--run-id", run, "--format", "json")
        return str(_parse_json(output)["runs"][0]["status"])

    def wait(self, run: int, limit: float) -> str:
        """Wait for the end of a run; return its last status."""
        until = time.monotonic() + limit
        while True:
            status = self.status(run)
            if status.startswith("finished") or time.monotonic() > until:
                return status
            time.sleep(2)

    def log_of(self, run: int) -> str:
        """Return the end of what a run's server logged."""
        return "\n".join(self._flwr("log", run, CONNECTION, "--show").splitlines()[-15:])

    def stop(self) -> None:
        """End every process, and all that they started.

        Some are in other sessions, and some have outlived the process that started them.
        """
        processes = [
            process for started in self._started for process in _process_tree(started.process.pid)
        ]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = psutil.wait_procs(processes, STOP_SECONDS)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for started in self._started:
            started.process.wait()
            with suppress(ProcessLookupError):
                os.killpg(started.process.pid, signal.SIGKILL)
        for name in ("keys", "certificates", "home"):  # of no use any more, and secret
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def _flwr(self, *arguments: Any) -> str:
        command = [_program("flwr"), *map(str, arguments)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=self._environment(),
                timeout=ANSWER_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise InputError(
                f"`{' '.join(command[1:])}` did not answer in {ANSWER_SECONDS:.0f} s; the "
                f"SuperLink's log: {self.folder / 'logs'}"
            ) from error
        if done.returncode:
            raise InputError(f"`{' '.join(command[1:])}` failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            # Flower's programs start each other by name, also where no environment is activated.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "FLWR_HOME": str(self.folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            # Several processes share the cores; one thread each for small models.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }

    def _answers(self) -> bool:
        scheme, context = "http", None
        if self._certificates is not None:
            scheme = "https"
            context = ssl.create_default_context(cafile=self._certificates.authority)
        try:
            url = f"{scheme}://{self.address}/health"
            with urllib.request.urlopen(url, timeout=2, context=context) as reply:
                return reply.status == 200
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def deployed(folder: Path, *, tls: bool = True) -> Iterator[Deployment]:
    """Start a SuperLink and wait until it answers; end all processes when the block is left."""
    deployment = Deployment(folder, tls=tls)
    try:
        deployment.start_superlink()
        yield deployment
    finally:
        deployment.stop()


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


def _program(name: str) -> str:
    """Return the path of a program of Flower's, from this very environment."""
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        raise InputError(f"{name} is not installed: pip install 'maxfl[flower]'")
    return str(path)


def _check_alive(started: LoggedProcess, name: str) -> None:
    if started.process.poll() is not None:
        raise InputError(f"{name} ended at once:\n{started.last_lines}")


def _process_tree(pid: int) -> list[psutil.Process]:
    """Return a process and all that descend from it."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _parse_json(text: str) -> dict[str, Any]:
    """Parse what a command of Flower's prints; other lines may stand before it."""
    try:
        return json.loads(text[text.index("{") :])
    except ValueError as error:
        raise InputError(f"Flower's answer can't be read: {text}") from error


def _toml(value: Any) -> str:
    return json.dumps(value)
