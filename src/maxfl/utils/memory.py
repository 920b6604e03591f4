"""Too little memory: refused before anything is begun, where sizes are known."""

import os

from maxfl.utils.disk_space import format_bytes
from maxfl.utils.errors import OutOfMemoryError


def machine_memory() -> int:
    """Return the bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse to begin what can't fit into this machine's memory."""
    if needed > (memory := machine_memory()):
        raise OutOfMemoryError(
            f"{what} will take {format_bytes(needed)} of memory, and this machine has "
            f"{format_bytes(memory)}: {remedy}"
        )
