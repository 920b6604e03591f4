"""Several processes meet before they work together.

JAX ends a process without a chance to explain when others do not come, come twice or can't be
reached. So they first hold a roll call, over a plain connection to the port at which JAX's
coordinator will listen: process 0 waits there, every other says its number, and all learn whether
they are complete. The connections stay open, so that one that is gone is missed (``liveness``).
"""

import json
import select
import socket
import time
from contextlib import suppress
from typing import Any

import jax

from maxfl.distributed.liveness import TIMEOUT, watch_peers
from maxfl.distributed.processes import enter_group, free_bytes, lost_peer_message
from maxfl.utils.errors import InputError, check_count

GREETING = 5.0
"""Seconds that whoever connects has to say which process it is."""
RETRY = 0.2
"""Seconds between two attempts to reach process 0."""


def join(
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
    *,
    timeout: float = TIMEOUT,
) -> None:
    """Work together with other processes, on this machine or others, that do the same.

    Call it before JAX computes anything. From then on ``jax.devices()`` are those of all processes,
    every process must make the same calls, and results are the same in all of them. A folder is
    that of process 0 alone.

    Without arguments, JAX finds the others by itself where a scheduler (such as Slurm) or MPI
    started them; a program that has called ``jax.distributed.initialize`` already is joined too.

    Args:
        coordinator: Address and port of process 0, as 10.0.0.1:1234; any free port of its machine.
        processes: How many there are.
        process: The number of this one, from 0.
        timeout: Seconds to wait for processes that have not come; and after which one that is
            silent counts as gone, which ends all others.
    """
    if not jax.distributed.is_initialized():
        given = coordinator, processes, process
        if given == (None, None, None):
            _initialize(timeout)  # JAX asks the scheduler
        else:
            _meet(*given, timeout)
    enter_group(min(free_bytes(device) for device in jax.local_devices()))


def _meet(
    coordinator: str | None, processes: int | None, process: int | None, timeout: float
) -> None:
    """Hold the roll call, then let JAX's coordinator take over the port."""
    host, port = _address(coordinator)
    check_count("processes", processes, least=1)
    check_count("process", process, least=0)
    assert processes is not None
    assert process is not None
    if process >= processes:
        raise InputError(
            f"process = {process}: {processes} processes have the numbers 0 to {processes - 1}"
        )
    if process == 0:
        peers = _roll_call(host, port, processes, timeout)
    else:
        peers = [_answer(host, port, processes, process, timeout)]
    # JAX would listen to all machines, even for processes of one.
    bind = f"{host}:{port}" if _is_loopback(host) else None
    _initialize(
        timeout,
        coordinator_address=f"{host}:{port}",
        num_processes=processes,
        process_id=process,
        coordinator_bind_address=bind,
        cluster_detection_method="deactivate",
    )
    watch_peers(peers, lost_peer_message)


def _initialize(timeout: float, **options: Any) -> None:
    """Initialize JAX's part, with one timeout for all that it waits for."""
    seconds = max(1, round(timeout))
    try:
        jax.distributed.initialize(
            **options,
            initialization_timeout=seconds,
            heartbeat_timeout_seconds=seconds,
            shutdown_timeout_seconds=seconds,
        )
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"the processes can't join: {error} Where no scheduler has started them, give "
            f"coordinator, processes and process."
        ) from error


def _address(coordinator: str | None) -> tuple[str, int]:
    """Return host and port of an address."""
    host, colon, port = (coordinator or "").rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(
            f"coordinator = {coordinator!r}: expected the address and a port of process 0, as "
            f"10.0.0.1:1234"
        )
    return host, int(port)


def _roll_call(host: str, port: int, processes: int, timeout: float) -> list[socket.socket]:
    """Wait, in process 0, for the others, and tell all of them whether they are complete.

    Returns the connections to them.
    """
    deadline = time.monotonic() + timeout
    peers: dict[int, socket.socket] = {}
    wrong = ""
    try:
        server = _listen(host, port)
    except OSError as error:
        raise InputError(
            f"process 0 can't listen at {host}:{port}: {error.strerror or error}. Is another "
            f"process 0 started there? If not, choose another port"
        ) from error
    with server:
        while len(peers) < processes - 1 and not wrong:
            patience = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([server, *peers.values()], [], [], patience)
            if not ready:
                missing = sorted(set(range(1, processes)) - set(peers))
                wrong = f"process {_listed(missing)} of {processes} has not come in {timeout:g} s"
                break
            # Nobody speaks twice: whoever has come and can be read from has hung up.
            if ended := [number for number, peer in peers.items() if peer in ready]:
                wrong = f"process {_listed(ended)} came and has ended: see what it said"
                break
            peer = server.accept()[0]
            peer.settimeout(GREETING)
            greeting = _receive(peer) or {}
            number, count = greeting.get("process"), greeting.get("processes")
            if not isinstance(number, int):
                peer.close()  # somebody else's connection, such as a scan of ports
                continue
            wrong = _objection(number, count, processes, peers)
            peers[len(peers) + processes if wrong else number] = peer
    for peer in peers.values():
        with suppress(OSError):  # it has ended since, and will be missed
            _send(peer, {"wrong": wrong})
    if not wrong:
        return list(peers.values())
    for peer in peers.values():
        _receive(peer)  # the others hang up first, so that the port is free at once
        peer.close()
    raise InputError(f"the processes can't join: {wrong}")


def _listen(host: str, port: int) -> socket.socket:
    """Listen at a port, as JAX will: to this machine alone, or to all."""
    if _is_loopback(host):
        return socket.create_server((host, port))
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.startswith("127.")


def _objection(number: int, count: object, processes: int, peers: dict[int, socket.socket]) -> str:
    if count != processes:
        return f"process {number} expects {count} processes, and process 0 expects {processes}"
    return f"two processes have the number {number}" if number in peers else ""


def _answer(host: str, port: int, processes: int, process: int, timeout: float) -> socket.socket:
    """Say, in every other process, which one this is; return the connection once all have come."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            peer = socket.create_connection((host, port), max(0.001, deadline - time.monotonic()))
            break
        except OSError as error:
            if time.monotonic() + RETRY > deadline:
                raise InputError(
                    f"process 0 can't be reached at {host}:{port} for {timeout:g} s "
                    f"({error.strerror or error}): is it started, and is that its address?"
                ) from error
            time.sleep(RETRY)
    peer.settimeout(max(timeout, 1.0) + 5.0)  # process 0 may have begun to wait later
    with suppress(OSError):
        _send(peer, {"processes": processes, "process": process})
    answer = _receive(peer)
    if answer is not None and not answer["wrong"]:
        return peer
    peer.close()
    if answer is None:
        raise InputError(
            f"what listens at {host}:{port} waits for no process {process}: either all have come, "
            f"and another one has this number, or it is no process 0 of maxfl, or it has ended"
        )
    raise InputError(f"the processes can't join: {answer['wrong']}")


def _send(peer: socket.socket, message: dict[str, object]) -> None:
    peer.sendall(json.dumps(message).encode() + b"\n")


def _receive(peer: socket.socket) -> dict[str, object] | None:
    """Receive a line of JSON; None if there is none."""
    try:
        with peer.makefile("rb") as file:
            message = json.loads(file.readline(1000))
    except (OSError, ValueError):
        return None
    return message if isinstance(message, dict) else None


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
