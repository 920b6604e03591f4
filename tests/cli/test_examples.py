"""``maxfl examples``: what users without a clone get of examples/."""

import re

import pytest

from maxfl.cli import examples
from support.commands import ROOT

CLONE = ROOT / "examples"


@pytest.fixture(autouse=True)
def new_folder(tmp_path, monkeypatch, maxfl):  # noqa: ARG001, which goes to another folder first
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_list_has_a_line_for_each(maxfl):
    text = " ".join(maxfl("examples").split())
    assert "clusters.toml The paper's clusters: Fashion-MNIST in five groups of two labels." in text
    assert "notebooks/tour.ipynb A tour of maxfl" in text
    assert "flower-jax/ MaxFL in a Flower app with JAX" in text
    assert "jaxfl/task.py" not in text


def test_every_file_says_what_it_is():
    listed = {example.name: example.what for example in examples.examples(CLONE)}
    tops = {path.name for path in CLONE.iterdir() if path.name != "__pycache__"}
    assert {name.partition("/")[0] for name in listed} == tops
    for name, what in listed.items():
        assert re.fullmatch(r"[A-Z].{10,95}", what), f"{name}: {what!r}"
        assert name.endswith(("/", ".ipynb")) or what.endswith((".", "?")), f"{name}: {what!r}"


def test_all_files_are_written_once(maxfl, new_folder):
    text = maxfl("examples", "examples")
    assert "Try one: maxfl run examples/opt-out.toml" in text
    written = examples.example_files(new_folder / "examples")
    assert written == examples.example_files(CLONE)
    assert f"{len(written)} files" in text
    same = (new_folder / "examples/quickstart.py").read_bytes()
    assert same == (CLONE / "quickstart.py").read_bytes()


def test_nothing_is_written_where_a_file_is_there(maxfl, new_folder):
    (new_folder / "mine").mkdir()
    (new_folder / "mine/sweep.toml").write_text("mine")
    text = maxfl("examples", "mine", code=2)
    assert "mine/sweep.toml is there already, and stays as it is: name another folder" in text
    assert [path.name for path in (new_folder / "mine").iterdir()] == ["sweep.toml"]
    assert (new_folder / "mine/sweep.toml").read_text() == "mine"


def test_a_place_that_is_no_folder_is_refused(maxfl, new_folder):
    (new_folder / "file").touch()
    assert "file is a file: name a new folder" in maxfl("examples", "file", code=2)
    text = " ".join(maxfl("examples", "file/below", code=2).split())
    assert re.search("can't write to file/below: .*; name another folder", text)


def test_links_lead_out_of_the_new_folder(maxfl, new_folder):
    maxfl("examples", "examples")
    for path in examples.example_files(new_folder / "examples"):
        text = (new_folder / "examples" / path).read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", text):
            if path.suffix in (".md", ".ipynb"):
                assert (new_folder / "examples" / path.parent / target).exists(), (path, target)


def test_examples_of_the_package_come_before_those_of_a_clone(monkeypatch, tmp_path):
    module = tmp_path / "site-packages/maxfl/cli/examples.py"
    packaged = module.with_name("example_files")
    packaged.mkdir(parents=True)
    monkeypatch.setattr(examples, "__file__", str(module))
    with pytest.raises(examples.InputError, match="not installed whole: install it anew"):
        examples.example_folder()
    (packaged / examples.FIRST).touch()
    assert examples.example_folder() == packaged
