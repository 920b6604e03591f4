"""The same metrics to other people's tools: one small adapter each, off by default.

A tracker is opened for every run folder and given every configuration's metrics at every evaluated
round, named as in metrics.parquet: ``seen/gm_appeal``, ``unseen/personal/test_accuracy``.
"""

from importlib import import_module

from maxfl.runs.trackers.base import OpenTracker
from maxfl.utils.errors import InputError, check_choice

NAMES = ("tensorboard", "mlflow", "wandb")
"""Known trackers; the extras that install them are called the same."""


def tracker(name: str, option: str = "--track") -> OpenTracker:
    """Return the adapter of that name, or say how to install it; ``option`` is what named it."""
    check_choice(option, name, NAMES)
    try:
        return import_module(f"maxfl.runs.trackers.{name}").open_tracker
    except ImportError as error:
        raise InputError(
            f"{option} {name} needs a package that is not installed: pip install 'maxfl[{name}]'"
        ) from error
