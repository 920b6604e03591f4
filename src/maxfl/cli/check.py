"""``maxfl check``: whether results, or a federation on disk, are still as they were written."""

from pathlib import Path
from typing import Annotated

import typer

from maxfl.cli.signals import interruptible
from maxfl.cli.terminal import console

app = typer.Typer()


@app.command("check")
def check_command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Folders of runs, sweeps or studies, or of federations on disk."
        ),
    ],
) -> None:
    """Tell whether results, or a federation on disk, are whole.

    Every file is read, and its digest compared with the one that was written down. Ends with status
    1 if anything is damaged.

    Example: maxfl check runs/demo
    """
    from maxfl.runs.check import check

    is_damaged = False
    for folder in folders:
        with interruptible(), console.status(f"Reading {folder}") as status:
            checked = list(check(folder, lambda name: status.update(f"Reading {name}")))
        for found in checked:
            is_damaged = is_damaged or bool(found.damage)
            for line in found.damage:
                console.print(f"Damaged: {line}", style="red", markup=False, soft_wrap=True)
            if not found.damage:
                state = "no digests to compare" if found.unknown else "whole"
                line = f"{found.folder}: {found.what}; {state}"
                console.print(line, markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(int(is_damaged))
