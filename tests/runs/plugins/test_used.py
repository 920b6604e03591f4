"""Own code of configurations and of run folders: part of what a run is, never imported from it."""

import json

import pytest

from maxfl.report.write import write_report
from maxfl.runs.check import check
from maxfl.runs.configs.file import validate
from maxfl.runs.folder import RunFolder
from maxfl.runs.plugins.code import Code
from maxfl.runs.plugins.used import code_of, require_code
from maxfl.utils.errors import InputError
from support.made_runs import CLIENTS, ROUNDS, make_history, settings_of, write_run
from support.own_modules import DATA, METHOD, MODEL

NAMES = {
    "algorithm": {"name": "own_method:lossweighted"},
    "model": {"name": "own_model:with_loss", "loss": "own_losses:focal"},
    "data": {"source": "own_data:federation"},
}


def test_all_that_a_file_names_is_part_of_the_run(own_code):
    folder = own_code(
        own_method=METHOD, own_model=MODEL, own_data=DATA, own_losses="from own_model import focal"
    )
    code = code_of([validate(NAMES, "f"), validate({}, "f")])
    assert sorted(code.digests) == [
        "own_data.py", "own_losses.py", "own_method.py", "own_model.py",
    ]  # fmt: skip
    assert set(code.folders.values()) == {folder.resolve()}
    assert code_of([validate({}, "f")]).digests == {}


def test_a_run_is_not_resumed_with_other_code(tmp_path):
    code = Code({"own_method.py": "a" * 64}, {"own_method": tmp_path})
    place = RunFolder(tmp_path / "runs/one", ())
    with place.claim({"federation": "x", "code": code.digests}, resume=False, code=code):
        pass
    assert json.loads((place.path / "experiment.json").read_text())["code_from"] == {
        "own_method": "../.."
    }
    moved = Code(code.digests, {"own_method": tmp_path / "elsewhere"})
    with place.claim({"federation": "x", "code": code.digests}, resume=True, code=moved) as done:
        assert not done, "the same code, from another folder"
    other = {"federation": "y", "code": {"own_method.py": "b" * 64}}
    words = r"differs in code.own_method.py \(SHA-256 a{8}... there, SHA-256 b{8}... here\). Choose"
    with pytest.raises(InputError, match=words), place.claim(other, resume=True):
        pass


@pytest.fixture
def run(own_code, tmp_path):
    """A finished run with an own method, and a module of that name in its folder."""
    own_code()
    settings = settings_of("own_method:lossweighted")
    folder = write_run(tmp_path / "runs/own", make_history(CLIENTS, ROUNDS), settings)
    noted = json.loads((folder / "experiment.json").read_text())
    written = {**noted, "code_from": {"own_method": "../..", "os.path": ".", "json": 3}}
    (folder / "experiment.json").write_text(json.dumps(written))
    for place in (folder, folder.parent):
        (place / "own_method.py").write_text("raise SystemExit('imported')\n")
    return folder


def test_a_missing_module_is_named_with_where_it_was(run, tmp_path, own_code):
    words = "made with the module own_method, which is neither in .* installed: resume it from "
    with pytest.raises(InputError, match=f"{words}the folder that has own_method$"):
        require_code(run)  # was copied, or the module removed
    (tmp_path / "own_method.py").write_text("raise SystemExit('imported')\n")
    with pytest.raises(InputError, match=f"{words}{tmp_path}$"):
        require_code(run)
    own_code(own_method="raise SystemExit('imported')\n")
    require_code(run)
    require_code(tmp_path / "nothing")


def test_looking_at_a_run_imports_nothing(run, tmp_path, monkeypatch):
    monkeypatch.chdir(run)  # where a module of that name lies
    report = write_report(run, tmp_path / "report", figures=False)
    assert report.verdicts
    assert "own code, `own_method:lossweighted`" in (report.folder / "model-cards.md").read_text()
    assert [found.folder for found in check(run)] == [run]
