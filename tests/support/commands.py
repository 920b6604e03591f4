"""The ``maxfl`` command as a real process, and settings that make its runs small."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SMALL = [
    "training.rounds=4", "training.local_steps=2", "training.evaluate_every=2", "data.clients=6",
    "data.unseen=4", "data.samples=20", "requirement.steps=5", "model.hidden=[8]",
]  # fmt: skip
ENVIRONMENT = {
    **os.environ,
    "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache/jax"),
    "COLUMNS": "100",
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
}
# A shell lets what it starts in the background ignore Ctrl-C; a test may be such a thing.
LISTENING = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from maxfl.cli import main; main()"
)
"""The command as a program that Ctrl-C ends."""


def small(*more, leave_out=()):
    """Options that make a run of an example small, with some more settings."""
    settings = [setting for setting in SMALL if not setting.startswith(leave_out or "-")]
    return [word for setting in (*settings, *more) for word in ("--set", setting)]


def start_maxfl(*arguments, code=0):
    """Run the command as a real process and return what it printed."""
    done = subprocess.run(
        ["maxfl", *map(str, arguments)], env=ENVIRONMENT, capture_output=True, text=True, cwd=ROOT,
        check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr
