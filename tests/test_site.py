"""The site is whole: every public name has its entry, and no link is broken."""

import doctest
import re
import runpy
import subprocess
import sys
import warnings

import pytest

import maxfl
from support.browser import browser
from support.commands import ROOT

REFERENCE = ROOT / "docs/reference"
EXAMPLES = sorted(p for p in REFERENCE.glob("*.md") if ":::" in p.read_text(encoding="utf-8"))


def test_every_public_name_is_in_the_reference():
    entries = "\n".join(path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md"))
    described = {line.rpartition(".")[2] for line in re.findall(r"^::: (.*)$", entries, re.M)}
    listed = set(re.findall(r"`(?:maxfl\.)?(\w+)`", (REFERENCE / "index.md").read_text()))
    namespaces = set(maxfl._NAMESPACES)
    assert set(maxfl.__all__) - namespaces - described == {"ALGORITHMS"}
    assert namespaces - listed == set()


@pytest.mark.extras
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::maxfl.TrainingWarning")
def test_the_examples_of_the_reference_run(page):
    if page.stem in ("models", "flower"):
        for library in ("flax", "equinox", "flwr"):
            pytest.importorskip(library)
    blocks = re.findall(r"```pycon\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, page.stem, str(page), 0)
    said = []
    with warnings.catch_warnings():  # a page shows how to change what they do
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert said == [], "".join(said)


def test_every_entry_of_the_reference_has_an_example():
    for page in EXAMPLES:
        entries = re.split(r"^::: ", page.read_text(encoding="utf-8"), flags=re.M)[1:]
        assert all("```py" in entry for entry in entries), page.stem


def test_the_page_of_the_command_is_its_help():
    page = runpy.run_path(str(ROOT / "scripts/make_command_page.py"))["page"]()
    written = (REFERENCE / "command.md").read_text(encoding="utf-8")
    assert page == written, "run python scripts/make_command_page.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.extras
def test_no_page_loads_anything_from_outside(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"?https?:", text) == []


@pytest.mark.extras
def test_search_works_in_pages_opened_from_a_disk(site):
    with browser() as running:
        page = running.new_page()
        page.goto((site / "howto/machines.html").as_uri())
        page.wait_for_selector(".md-search__input", state="attached")
        page.keyboard.press("/")
        page.keyboard.type("temperature")
        page.wait_for_selector(".md-search-result__link")
        assert "Choose a temperature" in page.locator(".md-search-result__list").inner_text()
