"""Digests of own code: its file and those that it imports, wherever in it."""

import hashlib
from importlib.metadata import version
from pathlib import Path

from maxfl.runs.plugins.code import NO_CODE, Code, merge, source_files
from maxfl.runs.plugins.resolve import load


def test_the_code_is_all_that_a_module_imports_of_its_folder(own_code):
    folder = own_code(
        own_main="import json, own_a\ndef f():\n    from own_pack.inner import x\n",
        own_a="from own_b import *\n",
        own_b="import own_main\n",  # a circle
        own_unused="",
    )
    package = folder / "own_pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("from . import beside\nfrom ..own_far import y\nx = (")
    (package / "beside.py").write_text("from .deeper import z\n")
    (folder / "json.py").write_text("")  # the standard library's is imported
    (folder / "site-packages").mkdir()
    names = [path.relative_to(folder).as_posix() for path in source_files("own_main", folder)]
    assert names == ["own_a.py", "own_b.py", "own_main.py", "own_pack/__init__.py",
                     "own_pack/inner.py"]  # fmt: skip
    (package / "inner.py").write_text("from . import beside\n")
    names = [path.name for path in source_files("own_main", folder)]
    assert "beside.py" in names
    code = load("own_main:f").code
    assert code.digests["own_a.py"] == hashlib.sha256(b"from own_b import *\n").hexdigest()
    assert code.folders == {"own_main": folder.resolve()}


def test_another_state_of_a_file_beside_it_is_other_code(own_code):
    def digests(text):
        own_code(own_main="from own_a import f\n", own_a=text)
        return load("own_main:f").code.digests

    one, two = digests("def f(): return 1\n"), digests("def f(): return 22\n")
    assert one["own_main.py"] == two["own_main.py"]
    assert one["own_a.py"] != two["own_a.py"]


def test_what_is_imported_from_elsewhere_is_part_of_the_code(own_code, tmp_path, monkeypatch):
    own_code(own_main="import rich, numpy\ndef f():\n    from own_lib.deep import x\n")
    (tmp_path / "lib/own_lib").mkdir(parents=True)
    (tmp_path / "lib/own_lib/__init__.py").write_text("")
    (tmp_path / "lib/own_lib/deep.py").write_text("from own_farther import x\n")
    (tmp_path / "lib/own_farther.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    code = load("own_main:f").code
    assert {**code.digests, "rich": ""}.keys() == {
        "own_main.py", "own_lib/__init__.py", "own_lib/deep.py", "own_farther.py", "rich",
    }  # fmt: skip
    assert code.digests["rich"] == version("rich")


def test_installed_packages_are_known_by_their_version(own_code):
    own_code()
    assert load("optax.losses:squared_error").code.digests == {"optax": version("optax")}
    assert load("json:dumps").code == load("maxfl.algorithms:fedavg").code == NO_CODE


def test_codes_are_put_together_and_seen_from_a_run():
    one = Code({"a.py": "1"}, {"a": Path("/place/code")})
    two = Code({"b.py": "2"}, {"b": Path("/place/code/lib")})
    both = merge([one, two, NO_CODE])
    assert both.digests == {"a.py": "1", "b.py": "2"}
    assert both.folders_from(Path("/place/code/runs/x")) == {"a": "../..", "b": "../../lib"}
    assert NO_CODE == ({}, {})
