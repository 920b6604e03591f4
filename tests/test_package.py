"""What is built for an index: its metadata, what is in it, and that it can be built again."""

import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.commands import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXAMPLES = "maxfl/cli/example_files"


def requirements():
    """Everything that pyproject.toml asks for, extras included."""
    lines = chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    return [r for r in map(Requirement, lines) if r.name != PROJECT["name"]]


def pins():
    """The exact versions of constraints.txt by name."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def test_versions_agree():
    assert f"\nversion: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text()
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert first[1] == PROJECT["version"]


def test_classifiers_are_those_of_the_workflow():
    workflow = (ROOT / ".github/workflows/tests.yml").read_text()
    tried = set(re.findall(r'"(3\.\d+)"', workflow))
    prefix = "Programming Language :: Python :: "
    named = {c.removeprefix(prefix) for c in PROJECT["classifiers"] if c.startswith(prefix)}
    assert named - {"3"} == tried
    assert PROJECT["requires-python"] == f">={min(tried, key=lambda v: int(v[2:]))}"


def test_every_range_has_a_lower_end():
    for requirement in requirements():
        operators = [bound.operator for bound in requirement.specifier]
        assert operators.count(">=") == 1, requirement


@pytest.mark.parametrize("requirement", requirements(), ids=lambda r: r.name)
def test_exact_versions_lie_in_the_ranges(requirement):
    pinned = pins()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(pinned, prereleases=True), pinned


class Built(NamedTuple):
    """The files of a build."""

    sdist: Path
    wheel: Path

    def sdist_names(self):
        """Files of the source distribution, without the folder that all are in."""
        with tarfile.open(self.sdist) as opened:
            return {name.partition("/")[2] for name in opened.getnames()}

    def wheel_names(self):
        with zipfile.ZipFile(self.wheel) as opened:
            return set(opened.namelist())

    def metadata(self):
        with zipfile.ZipFile(self.wheel) as opened:
            (name,) = (n for n in opened.namelist() if n.endswith(".dist-info/METADATA"))
            return email.message_from_bytes(opened.read(name))


def build(folder, *options, **environment):
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, *options, "."]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Built(*folder.glob("*.tar.gz"), *folder.glob("*.whl"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source distribution, and the wheel that is built from it."""
    for package in ("build", "hatchling", "hatch_fancy_pypi_readme"):
        pytest.importorskip(package)
    return build(tmp_path_factory.mktemp("first"))


@pytest.mark.extras
@pytest.mark.parametrize("environment", [{}, {"SOURCE_DATE_EPOCH": "1700000000"}], ids=len)
def test_the_same_tree_gives_the_same_bytes(built, tmp_path, environment):
    first = build(tmp_path / "first", **environment) if environment else built
    again = build(tmp_path / "again", "--sdist", "--wheel", **environment)
    assert again.sdist.read_bytes() == first.sdist.read_bytes()
    assert again.wheel.read_bytes() == first.wheel.read_bytes()


@pytest.mark.extras
def test_the_wheel_has_the_package_and_the_examples_alone(built):
    expected = {
        place / path.relative_to(folder)
        for folder, place in (
            (ROOT / "src/maxfl", Path("maxfl")),
            (ROOT / "examples", Path(EXAMPLES)),
        )
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = {name for name in built.wheel_names() if ".dist-info/" not in name}
    assert names == set(map(str, expected))
    assert {"maxfl/py.typed", "maxfl/cli/demo.toml", f"{EXAMPLES}/opt-out.toml"} <= names


@pytest.mark.extras
def test_the_metadata_are_whole(built):
    metadata = built.metadata()
    assert metadata["Name"] == PROJECT["name"]
    assert metadata["Version"] == PROJECT["version"]
    assert metadata["License-Expression"] == PROJECT["license"]
    assert set(metadata.get_all("License-File")) == set(PROJECT["license-files"])
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL"))
    assert urls == PROJECT["urls"]
    assert metadata.get_all("Classifier") == sorted(PROJECT["classifiers"])
    assert metadata["Description-Content-Type"] == "text/markdown"


@pytest.mark.extras
def test_readme_reads_on_an_index(built):
    text = built.metadata().get_payload()
    source, tag = PROJECT["urls"]["Source"], f"v{PROJECT['version']}"
    raw = source.replace("github.com", "raw.githubusercontent.com")
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text)
    assert len(links) > 20
    assert any(is_picture for is_picture, _ in links)
    for is_picture, link in links:
        start = f"{raw}/{tag}/" if is_picture else f"{source}/blob/{tag}/"
        assert link.startswith("https://"), link
        if link.startswith((raw, source)):
            assert link.startswith(start), link
            assert (ROOT / link.removeprefix(start).partition("#")[0]).is_file(), link


@pytest.mark.extras
def test_the_source_distribution_has_what_tests_read_and_nothing_else(built):
    git = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if git.returncode:
        pytest.skip("not in a clone: there is no git to ask")
    listed = {name for name in git.stdout.splitlines() if (ROOT / name).is_file()}
    assert built.sdist_names() == listed | {"PKG-INFO"}


@pytest.mark.extras
def test_tests_run_from_the_source_distribution(built, tmp_path):
    with tarfile.open(built.sdist) as opened:
        opened.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    tests = ["tests/core/test_appeal.py", "tests/test_architecture.py", "tests/test_deploy.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "not extras", *tests],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(folder / "src")}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
