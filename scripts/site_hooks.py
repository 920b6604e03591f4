"""Hooks of the site: pages made of files outside docs/, and links that lead out of it.

Pages read on a forge link to files of the repository, ../src/maxfl/core/appeal.py or
../examples/notebooks/tour.ipynb. On the site, such a link leads to the page made of that file,
or to the file in the repository.
"""

import json
import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
HOME = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
LINK = re.compile(r"(\]\(|(?:src|href)=\")([^)\s\"#]+)(#[^)\s\"]*)?")
OUTSIDE = {
    "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md",
    "deploy/README.md": "examples/containers.md",
}  # fmt: skip
"""Files of the repository, and the pages that are made of them, or stand for them."""
SHIM = re.compile(r"https://unpkg\.com/iframe-worker/shim")
"""What the theme would load from outside for search in pages that are opened from a disk."""
WORKER = "assets/file-worker.js"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages made of files outside docs/."""
    for path, page in pages().items():
        if page == "index.md":
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        text = notebook_text(json.loads(text)) if path.endswith(".ipynb") else text
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links out of docs/ to the page made of a file, or to the repository."""
    made = {of: path for path, of in pages().items() if of != "index.md"}
    folder = posixpath.dirname(made.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def led(match: re.Match[str]) -> str:
        before, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        if ":" in target or target.startswith("/"):
            return match.group(0)
        path = posixpath.normpath(posixpath.join(folder, target))
        if path.startswith("docs/"):
            to = path.removeprefix("docs/")
        elif path in pages():
            to = pages()[path]
        elif (ROOT / path).exists():
            kind = "tree" if (ROOT / path).is_dir() else "blob"
            return f"{before}{HOME}/{kind}/main/{path}{anchor}"
        else:
            return match.group(0)
        start = posixpath.dirname(page.file.src_uri) or "."
        return f"{before}{posixpath.relpath(to, start)}{anchor}"

    return LINK.sub(led, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Take the site's own script for search from a disk."""
    start = posixpath.dirname(page.file.dest_uri) or "."
    return SHIM.sub(posixpath.relpath(WORKER, start), output)


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """Take it for the page of addresses that are not there, too."""
    return SHIM.sub(f"/{WORKER}", output_content)


def pages() -> dict[str, str]:
    """Return files of the repository outside docs/ that are pages, and the pages' paths."""
    examples = {
        path.relative_to(ROOT).as_posix(): f"examples/{path.parent.name}.md"
        for path in sorted((ROOT / "examples").glob("flower-*/README.md"))
    }
    notebooks = {
        path.relative_to(ROOT).as_posix(): f"notebooks/{path.stem}.md"
        for path in sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
    }
    return OUTSIDE | examples | notebooks


def notebook_text(notebook: dict[str, Any]) -> str:
    """Return a notebook as Markdown: its text, its code, and what that prints and draws."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [shown for output in cell["outputs"] if (shown := output_text(output))]
    return "\n\n".join(parts) + "\n"


def output_text(output: dict[str, Any]) -> str:
    """Return what a cell has put out: a picture, a table or text."""
    data = output.get("data", {})
    if "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        return f'<img alt="Output" src="data:image/png;base64,{picture}">'
    if "text/html" in data:
        return f'<div class="output">{"".join(data["text/html"])}</div>'
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""
