"""The ``maxfl`` command."""

from maxfl.cli.app import main

__all__ = ["main"]
