"""Run the notebooks of examples/notebooks anew, and keep what they show.

python scripts/run_notebooks.py [NAME ...]        all of them, in place
"""

import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "examples/notebooks"
WHERE = re.compile(r"^/\S+\.py:\d+: (?=\w+Warning: )|^  .*\n", re.M)
SECONDS = 600
"""That one cell may take, on a slow machine."""


def executed(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with what its cells show when they are run now; an error ends it."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )  # fmt: skip
    return without_places(client.execute())


def without_places(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Take out of warnings where on this machine they arose, and the line of code below."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                output.text = WHERE.sub("", output.text)
    return notebook


def main(names: list[str]) -> None:
    """Run some notebooks, or all, and write them back."""
    for path in [FOLDER / name for name in names] or sorted(FOLDER.glob("*.ipynb")):
        notebook = executed(path)
        notebook.metadata = {"kernelspec": notebook.metadata.kernelspec}
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size / 1e3:,.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
