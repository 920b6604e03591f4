"""Names of files and folders: those that a run leaves behind, and where the user's cache is."""

import os
from pathlib import Path

EXPERIMENT, SUMMARY = "experiment.json", "summary.json"
METRICS = "metrics.parquet"
TABLES = ("history.parquet", "rounds.parquet", "clients.parquet", METRICS)
PARTITION = "partition.parquet"
CLIENT_STATES = "client-states.bin"
MODEL, CARD = "model.safetensors", "model-card.md"
ROUND_LOG = "rounds.log"
STUDY, STUDY_RESULTS = "study.json", "results.parquet"


def user_cache() -> Path:
    """Return the user's cache folder for this program."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maxfl"
