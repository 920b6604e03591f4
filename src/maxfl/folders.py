"""Where this program keeps things for its user."""

import os
from pathlib import Path


def user_cache() -> Path:
    """The user's cache folder for this program."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maxfl"
