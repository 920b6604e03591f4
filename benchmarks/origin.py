"""Where and when results were measured: by that, files of one session are told from others."""

import datetime
import subprocess


def origin() -> dict[str, str]:
    """Return the day, and the beginning of the GPU's number, which no other card has."""
    found = {"date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    try:
        query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # no such GPU
        return found
    return found | {"card": done.stdout.splitlines()[0][:12]}
