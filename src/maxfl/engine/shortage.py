"""Too little disk or memory: said before it happens where sizes are known, else what to change."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import jax

from maxfl.distributed.processes import free_bytes
from maxfl.utils.disk_space import readable
from maxfl.utils.errors import OutOfMemoryError

if TYPE_CHECKING:
    from maxfl.engine.simulation import Simulation


@contextmanager
def told_if_out_of_memory(simulation: "Simulation", kept: str = "") -> Iterator[None]:
    """Say what was predicted, and which setting to lower; ``kept`` says what is not lost."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        why = str(error).split("\n")[0]
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in why:
            raise
        raise OutOfMemoryError(f"out of memory ({why}). {_advice(simulation)}{kept}") from error


def _advice(simulation: "Simulation") -> str:
    layout = simulation.largest_layout
    devices = layout.mesh.devices
    configurations, clients = layout.configurations_at_once, layout.clients_at_once
    room = free_bytes(devices.flat[0])
    at_once = max(configurations, clients)
    lower = [f"at_once (--at-once) below {at_once}"] if at_once > 1 else []
    lower += simulation.memory_settings
    return (
        f"A device needs about {readable(simulation.predicted_bytes)} of {readable(room)} for "
        f"{configurations} configuration{'s' if configurations > 1 else ''} and {clients} "
        f"client{'s' if clients > 1 else ''} at once: lower {', or '.join(lower)}."
    )
