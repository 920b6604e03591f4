"""Where the seconds of `make demo` go, in a fresh clone of what is committed.

    python benchmarks/demo.py [FILE.json]

An empty home, so that nothing is compiled or cached beforehand; pip's cache is that home's too. The
command is run a second time, with what the first compiled: the difference is compilation. Alone on
the machine. Writes benchmarks/results/demo-ARCHITECTURE.json or the file given.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from origin import origin

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).parent / f"results/demo-{platform.machine()}.json"
OURS = ("VIRTUAL_ENV", "PYTHONPATH", "MAXFL_DATA", "JAX_COMPILATION_CACHE_DIR")


def main() -> None:
    """Measure, print and write."""
    with tempfile.TemporaryDirectory() as place:
        found = {
            "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            **origin(),
            "seconds": measure(Path(place)),
        }
    print(json.dumps(found, indent=1))
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    file.write_text(json.dumps(found, indent=1) + "\n")


def measure(place: Path) -> dict[str, int]:
    """Return whole seconds of every part."""
    clone, home = place / "clone", place / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)

    def seconds(*command: str) -> float:
        kept = {name: value for name, value in os.environ.items() if name not in OURS}
        began = time.perf_counter()
        subprocess.run(
            command, cwd=clone, env=kept | {"HOME": str(home)}, check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return time.perf_counter() - began

    environment = seconds("make", ".venv/created")
    installation = seconds("make", ".venv/installed")
    first = seconds("make", "demo")
    again = seconds(".venv/bin/maxfl", "demo", "--out", "runs/again")
    groups = (clone / "runs/again/groups").glob("*/summary.json")
    training = sum(json.loads(group.read_text())["seconds"] for group in groups)
    parts = {
        "virtual environment": environment,
        "download and installation": installation,
        "compilation": first - again,
        "training of 15 runs, with solo models": training,
        "imports, data, intervals, figure": again - training,
    }
    return {part: round(value) for part, value in parts.items()}


if __name__ == "__main__":
    main()
