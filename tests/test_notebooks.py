"""The notebooks of examples/: what they show is kept, and `make test-more` runs them anew."""

import json
import re
import runpy

import pytest

import maxfl
from support.commands import ROOT

NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
MOST_BYTES = 1_000_000


def cells_of(path):
    return [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["own-method", "tour"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_they_show_is_kept(path):
    text, cells = path.read_text(), cells_of(path)
    assert len(text.encode()) < MOST_BYTES
    assert not re.search(r"/(home|root|tmp|work|Users|usr|opt)/", text), "a path of a machine"
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    warned = ["".join(output["text"]) for output in outputs if output.get("name") == "stderr"]
    assert all(text.startswith("TrainingWarning: ") for text in warned)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert {"text/html", "image/png"} <= kinds


def test_the_tour_shows_the_defaults_of_today():
    assert repr(maxfl.maxfl_auto()) in (ROOT / "examples/notebooks/tour.ipynb").read_text()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_requirement_is_made_of_test_figures(path):
    assert not [cell for cell in cells_of(path) if "solo.test" in "".join(cell["source"])]


@pytest.mark.slow
@pytest.mark.extras
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_run(path):
    pytest.importorskip("nbclient")
    script = runpy.run_path(str(ROOT / "scripts/run_notebooks.py"))
    notebook = script["executed"](path)
    assert len(notebook.cells) == len(json.loads(path.read_text())["cells"])
