"""Addresses of the project's pages, for those who have the package and no clone of it."""

from importlib.metadata import metadata


def page_url(page: str) -> str:
    """Return the address of a page of the documentation, such as ``"howto/machines"``."""
    return f"{_project_url('Documentation')}/{page}.html"


def source_url(path: str) -> str:
    """Return the address of a file of the repository, such as ``"docs/data.md"``."""
    return f"{_project_url('Source')}/blob/main/{path}"


def _project_url(label: str) -> str:
    """Return an address that pyproject.toml has under ``[project.urls]``."""
    entries = metadata("maxfl").get_all("Project-URL", [])
    return dict(entry.split(", ", 1) for entry in entries)[label]
