"""An environment for each peer, made once below a folder that git ignores."""

import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "numpy": ("numpy==2.4.6",),
    "torch": ("torch==2.15.0", "pfl==0.6.0", "numpy==2.4.6"),
    "flower": ("flwr[simulation]==1.41.0", "ray==2.55.1", "numpy==2.4.6"),
    # FedJAX 0.0.17 calls jax.tree_map, which later JAX has not; the others are of its time.
    "fedjax": (
        "fedjax==0.0.17", "jax==0.4.30", "jaxlib==0.4.30", "dm-haiku==0.0.13", "optax==0.2.3",
        "chex==0.1.86", "numpy==2.4.6",
    ),
}  # fmt: skip
"""Exact versions of what is measured; pip chooses the rest. pfl runs on PyTorch, so they share."""


def python(name: str, folder: Path) -> Path:
    """Return the interpreter of an environment, made now if it is missing or has other packages."""
    place, packages = folder / name, "\n".join(PACKAGES[name])
    mark, found = place / "packages.txt", place / "bin" / "python"
    if not mark.exists() or mark.read_text() != packages:
        make = [sys.executable, "-m", "venv", "--clear", str(place)]
        install = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                   "--no-compile", *PACKAGES[name]]  # fmt: skip
        for command in (make, install):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise OSError(last_line(done.stderr or done.stdout))
        mark.write_text(packages)
    return found


def last_line(text: str) -> str:
    """Return what a failed process said last."""
    return (text.strip().splitlines() or ["no message"])[-1][:200]
