"""The ``maxfl`` command: what a person types and reads in a terminal.

Here: commands and their options, progress bars, printed tables. Whatever they do is done below, in
``runs``, ``report``, ``paper``, ``flower`` and ``data``, and can be called from Python too.

A module of a command is imported when the command is called, and imports what computes inside its
functions: help, versions and completion must not wait for JAX.
"""

import sys


def main() -> None:
    """Run the command; also while its modules are imported, Ctrl-C ends in one line."""
    try:
        from maxfl.cli.app import main as run_app

        run_app()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)
