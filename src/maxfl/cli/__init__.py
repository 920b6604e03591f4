"""The ``maxfl`` command: what a person types and reads in a terminal.

Here: commands and their options, progress bars, printed tables. Whatever they do is done below, in
``runs``, ``report``, ``paper``, ``flower`` and ``data``, and can be called from Python too.

A module of a command is imported when the command is called, and imports what computes inside its
functions: help, versions and completion must not wait for JAX.
"""

from maxfl.cli.signals import end_at_once


def main() -> None:
    """Run the command; a signal ends it in one line, from the first import on."""
    end_at_once()
    from maxfl.cli.app import main as run_app

    run_app()
