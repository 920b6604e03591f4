"""Release compiled programs before a process of tests runs out of memory maps, and crashes."""

from pathlib import Path

import jax

MOST = 30_000
"""Linux lets a process have 65,530 (vm.max_map_count); a program on CPUs takes some hundred."""
MAPS = Path("/proc/self/maps")


def release_programs() -> None:
    """Forget all compiled programs where they take too many maps; elsewhere than on Linux never."""
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST:
        jax.clear_caches()
