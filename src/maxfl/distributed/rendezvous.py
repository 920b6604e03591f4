"""Several processes meet before they work together.

JAX ends a process without a chance to explain when others do not come, come twice or can't be
reached. So they first call a roll, over a plain connection to the port at which JAX's coordinator
will listen: process 0 waits there, every other says its number, and all learn whether they are
complete. The connections stay open, so that one that is gone is missed (``lifeline``).
"""

import json
import select
import socket
import time
from contextlib import suppress
from typing import Any

import jax

from maxfl.distributed import liveness
from maxfl.distributed import processes as group
from maxfl.distributed.processes import free_bytes
from maxfl.utils.errors import InputError, check_count

TIMEOUT = 60.0
"""Seconds to wait for processes that have not come yet, or are silent."""
GREETING = 5.0
"""Seconds that whoever connects has to say who it is."""
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
    group.enter(min(free_bytes(device) for device in jax.local_devices()))


def _meet(
    coordinator: str | None, processes: int | None, process: int | None, timeout: float
) -> None:
    """Call the roll, then let JAX's coordinator take over the port."""
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
        lines = _call_roll(host, port, processes, timeout)
    else:
        lines = [_answer(host, port, processes, process, timeout)]
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
    liveness.keep(lines)


def _initialize(timeout: float, **options: Any) -> None:
    """JAX's part, with one patience for all that it waits for."""
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
    """Host and port."""
    host, colon, port = (coordinator or "").rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(
            f"coordinator = {coordinator!r}: want the address and a port of process 0, as "
            f"10.0.0.1:1234"
        )
    return host, int(port)


def _call_roll(host: str, port: int, processes: int, timeout: float) -> list[socket.socket]:
    """Process 0: wait for the others, and tell all of them whether they are complete.

    Returns the connections to them.
    """
    deadline = time.monotonic() + timeout
    came: dict[int, socket.socket] = {}
    wrong = ""
    try:
        door = _door(host, port)
    except OSError as error:
        raise InputError(
            f"process 0 can't listen at {host}:{port}: {error.strerror or error}. Is another "
            f"process 0 started there? If not, choose another port"
        ) from error
    with door:
        while len(came) < processes - 1 and not wrong:
            patience = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([door, *came.values()], [], [], patience)
            if not ready:
                missing = sorted(set(range(1, processes)) - set(came))
                wrong = f"process {_listed(missing)} of {processes} has not come in {timeout:g} s"
                break
            # Nobody speaks twice: whoever has come and can be read from has hung up.
            if gone := [number for number, line in came.items() if line in ready]:
                wrong = f"process {_listed(gone)} came and has ended: see what it said"
                break
            line = door.accept()[0]
            line.settimeout(GREETING)
            said = _hear(line) or {}
            number, count = said.get("process"), said.get("processes")
            if not isinstance(number, int):
                line.close()  # somebody else's connection, such as a scan of ports
                continue
            wrong = _objection(number, count, processes, came)
            came[len(came) + processes if wrong else number] = line
    for line in came.values():
        with suppress(OSError):  # it has ended since, and will be missed
            _say(line, {"wrong": wrong})
    if not wrong:
        return list(came.values())
    for line in came.values():
        _hear(line)  # the others hang up first, so that the port is free at once
        line.close()
    raise InputError(f"the processes can't join: {wrong}")


def _door(host: str, port: int) -> socket.socket:
    """Listen, as JAX will: to this machine alone, or to all."""
    if _is_loopback(host):
        return socket.create_server((host, port))
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.startswith("127.")


def _objection(number: int, count: object, processes: int, came: dict[int, socket.socket]) -> str:
    if count != processes:
        return f"process {number} was told of {count} processes, and process 0 of {processes}"
    return f"two processes have the number {number}" if number in came else ""


def _answer(host: str, port: int, processes: int, process: int, timeout: float) -> socket.socket:
    """Every other process: say who this is, and wait for the answer on the connection returned."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            line = socket.create_connection((host, port), max(0.001, deadline - time.monotonic()))
            break
        except OSError as error:
            if time.monotonic() + RETRY > deadline:
                raise InputError(
                    f"process 0 can't be reached at {host}:{port} for {timeout:g} s "
                    f"({error.strerror or error}): is it started, and is that its address?"
                ) from error
            time.sleep(RETRY)
    line.settimeout(max(timeout, 1.0) + 5.0)  # process 0 may have begun to wait later
    with suppress(OSError):
        _say(line, {"processes": processes, "process": process})
    answer = _hear(line)
    if answer is not None and not answer["wrong"]:
        return line
    line.close()
    if answer is None:
        raise InputError(
            f"what listens at {host}:{port} waits for no process {process}: either all have come, "
            f"and another one has this number, or it is no process 0 of maxfl, or it has ended"
        )
    raise InputError(f"the processes can't join: {answer['wrong']}")


def _say(line: socket.socket, words: dict[str, object]) -> None:
    line.sendall(json.dumps(words).encode() + b"\n")


def _hear(line: socket.socket) -> dict[str, object] | None:
    """A line of JSON, or None if there is none."""
    try:
        with line.makefile("rb") as file:
            said = json.loads(file.readline(1000))
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) else None


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
