"""Addresses that commands print, and those that stand in files of the package."""

import re
import tomllib

from maxfl.utils.links import page_url, source_url
from support.commands import ROOT

URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]


def test_addresses_are_those_of_the_project():
    assert page_url("demo") == f"{URLS['Documentation']}/demo.html"
    assert source_url("docs/data.md") == f"{URLS['Source']}/blob/main/docs/data.md"


def test_pages_that_the_package_names_exist():
    package = ROOT / "src/maxfl"
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in package.rglob("*")
        if path.suffix in (".py", ".toml", ".md", ".txt")
    }
    named = re.escape(URLS["Documentation"]) + r"/([\w/-]+)\.html|page_url\(['\"]([\w/-]+)"
    pages = {
        (path.name, written or called)
        for path, text in texts.items()
        for written, called in re.findall(named, text)
    }
    assert {page for _, page in pages} >= {"demo", "flower", "own-code"}
    for name, page in pages:
        assert (ROOT / f"docs/{page}.md").is_file(), f"{name} names {page}"
