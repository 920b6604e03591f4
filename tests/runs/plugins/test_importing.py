"""Modules of the current folder: what harms nobody, and errors in words."""

import importlib
import json
import sys

import pytest

from maxfl.runs.plugins.importing import import_module, importing_from, is_there
from maxfl.utils.errors import InputError


def test_a_module_of_the_folder_is_imported_with_what_lies_beside_it(own_code):
    folder = own_code(own_one="from own_two import two\n", own_two="two = 2\n")
    before = [*sys.path], [*sys.meta_path]
    assert import_module("own_one", folder).two == 2
    assert ([*sys.path], [*sys.meta_path]) == before
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("own_three")


def test_files_called_as_other_modules_do_no_harm(own_code):
    harm = "raise SystemExit('harm')\n"
    folder = own_code(mailcap=harm, colorsys=harm, maxfl=harm, own_one="import colorsys, maxfl\n")
    sys.modules.pop("colorsys", None)
    module = import_module("own_one", folder)
    assert "own" not in module.colorsys.__file__
    assert module.maxfl.Model
    with pytest.raises(InputError, match=r"colorsys.py has the name of a module of Python's"):
        import_module("colorsys", folder)


def test_a_plain_folder_is_no_package_unless_it_is_asked_for(own_code):
    folder = own_code()
    (folder / "own_plain").mkdir()
    (folder / "own_plain/inner.py").write_text("one = 1\n")
    with importing_from(folder), pytest.raises(ModuleNotFoundError):
        importlib.import_module("own_plain")
    assert import_module("own_plain.inner", folder).one == 1


def test_nothing_is_imported_from_a_run_folder_below(own_code):
    harm = "raise SystemExit('imported')\n"
    folder = own_code(own_asks="import own_link\n")
    runs, package = folder / "own_runs", folder / "own_package"
    for place in (runs / "got/inner", package / "got"):
        place.mkdir(parents=True)
        (place / "evil.py").write_text(harm)
        (place / "__init__.py").write_text(harm)
    (package / "__init__.py").write_text("")
    (runs / "got/evil.py").write_text(harm)
    (folder / "own_link").symlink_to(runs / "got/inner", target_is_directory=True)
    for run in (runs / "got", package / "got"):
        (run / "experiment.json").write_text(json.dumps({"maxfl": "0.2.0"}))
    for name in ("own_runs.got.evil", "own_runs.got.inner.evil", "own_runs.got.inner",
                 "own_package.got.evil", "own_link.evil", "own_asks"):  # fmt: skip
        with pytest.raises(InputError, match=r"lies in the folder of a run .*experiment.json"):
            import_module(name, folder)


def test_a_run_folder_on_the_path_is_refused_too(own_code, monkeypatch):
    folder = own_code(own_one="raise SystemExit('imported')\n")
    (folder / "experiment.json").write_text(json.dumps({"maxfl": "0.2.0"}))
    monkeypatch.syspath_prepend(folder)
    with importing_from(folder), pytest.raises(InputError, match=r"lies in the folder of a run"):
        importlib.import_module("own_one")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0\n", r"importing own_bad failed: ZeroDivisionError: .* \(own_bad.py:1\)"),
        ("x = (\n", r"importing own_bad failed: SyntaxError: .* \(own_bad.py:1\)"),
        ("\nimport no_such\n", r"ModuleNotFoundError: No module named 'no_such' \(own_bad.py:2\)"),
        ("raise SystemExit(3)\n", r"importing own_bad failed: SystemExit: 3 \(own_bad.py:1\)"),
        ("import json\njson.loads('x')\n", r"JSONDecodeError: .*\(own_bad.py:2\)|json/decoder"),
    ],
)
def test_an_import_that_fails_says_where(own_code, text, words):
    folder = own_code(own_bad=text)
    with pytest.raises(InputError, match=words):
        import_module("own_bad", folder)


def test_a_module_that_is_not_there_is_named_with_the_folder(own_code):
    folder = own_code(own_one="")
    with pytest.raises(InputError, match=f"no module own_two: neither own_two.py in .*{folder}"):
        import_module("own_two", folder)
    with pytest.raises(InputError, match=r"no module own_one.inner: neither own_one/inner.py"):
        import_module("own_one.inner", folder)
    assert is_there("own_one", folder)
    assert is_there("jax", folder)
    assert not is_there("own_two", folder)


def test_a_module_that_is_loaded_from_elsewhere_is_refused(own_code):
    folder = own_code(pytest="")
    with pytest.raises(InputError, match=r"pytest.py has the name of another module, /"):
        import_module("pytest", folder)


def test_nothing_is_imported_from_a_run_folder(own_code):
    folder = own_code(own_one="raise SystemExit('imported')\n")
    (folder / "experiment.json").write_text(json.dumps({"maxfl": "0.2.0"}))
    below = folder / "checkpoint"
    below.mkdir()
    (below / "own_one.py").write_text("raise SystemExit('imported')\n")
    for place in (folder, below):
        with pytest.raises(InputError, match=r"lies in the folder of a run .*copy your code out"):
            import_module("own_one", place)
    with importing_from(folder), pytest.raises(ModuleNotFoundError):  # as what is installed may
        importlib.import_module("own_one")
    (folder / "experiment.json").write_text("[]")  # somebody else's
    with pytest.raises(InputError, match="SystemExit: imported"):
        import_module("own_one", folder)
