"""What own code is, so that a run is not resumed with other code: digests and versions."""

import ast
import importlib.metadata
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from maxfl.utils.files import digest

CODE_FROM = "code_from"
"""Where a run folder says in which folders its code lay, seen from itself; it may be moved."""
INSTALLED = {"site-packages", "dist-packages"}
VERSIONED = {*sys.stdlib_module_names, "maxfl"}
"""Modules whose files are known by the versions of Python and of this package."""
BELOW = {"jax", "jaxlib", "numpy", "optax"}
"""Packages that this one is built on: what own code imports of them is not noted."""


class Code(NamedTuple):
    """Code that a run is made with, beside this package.

    Attributes:
        digests: SHA-256 of each file, by its path in the folder of its module; versions of
            installed packages, by name.
        folders: The folder that each module was found in, by the module's first name.
    """

    digests: dict[str, str]
    folders: dict[str, Path]

    def folders_from(self, place: Path) -> dict[str, str]:
        """Return the folders as seen from another one, such as that of a run."""
        start = place.resolve()
        return {name: os.path.relpath(folder, start) for name, folder in self.folders.items()}


NO_CODE = Code({}, {})


def merge(codes: Iterable[Code]) -> Code:
    """Put the code of several names together."""
    digests: dict[str, str] = {}
    folders: dict[str, Path] = {}
    for code in codes:
        digests |= code.digests
        folders |= code.folders
    return Code(digests, folders)


def code_of_module(module: ModuleType) -> Code:
    """Return the code of a module: its file and those that it imports, wherever they lie.

    What is installed, also of what it imports, is known by its version.
    """
    name = module.__name__
    top = name.partition(".")[0]
    root = _root(sys.modules[top])
    if top in VERSIONED or root is None:
        return NO_CODE
    if is_installed(root):
        versions = _versions(top)
        if versions:
            return Code(versions, {top: root})
    return Code(_digests(name, root), {top: root})


def _digests(module: str, root: Path) -> dict[str, str]:
    """Return digests of the files that a module runs, and versions of what it imports."""
    found: dict[str, str] = {}
    seen = {module}
    waiting = [(module, root)]
    while waiting:
        name, folder = waiting.pop()
        files = source_files(name, folder)
        found |= {f.relative_to(folder).as_posix(): digest(f.read_bytes()) for f in files}
        for other in {n for file in files for n in _imported(file, folder)} - seen:
            seen.add(other)
            top = other.partition(".")[0]
            place = None if top in VERSIONED | BELOW else _found(top)
            if place is None or place == folder:
                continue
            if is_installed(place):
                found |= _versions(top)
            else:
                waiting.append((other, place))
    return found


def _found(top: str) -> Path | None:
    """Return the folder in which a module of the first level lies, without importing it."""
    if top in sys.modules:
        return _root(sys.modules[top])
    spec = PathFinder.find_spec(top)
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).resolve().parent
    return Path(spec.origin).resolve().parent if spec.has_location and spec.origin else None


def _versions(top: str) -> dict[str, str]:
    """Return the versions of the packages that have a module of the first level."""
    return {package: importlib.metadata.version(package) for package in _packages().get(top, [])}


@lru_cache
def _packages() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def is_installed(path: Path) -> bool:
    """Return whether a file belongs to an installed package."""
    return not INSTALLED.isdisjoint(path.parts)


def _root(top: ModuleType) -> Path | None:
    """Return the folder in which a module of the first level lies; None if it has no file."""
    paths = list(getattr(top, "__path__", []))
    if paths:
        return Path(paths[0]).resolve().parent
    file = getattr(top, "__file__", None)
    return None if file is None else Path(file).resolve().parent


def source_files(module: str, root: Path) -> list[Path]:
    """Return the files of a module and of the modules below a folder that it imports, sorted.

    Imports are read from the source, so that those inside functions count too.
    """
    found: dict[Path, None] = {}
    waiting = [module]
    while waiting:
        for path in _files(waiting.pop(), root):
            if path not in found:
                found[path] = None
                waiting += _imported(path, root)
    return sorted(found)


def _files(module: str, root: Path) -> Iterator[Path]:
    """Yield the files that importing a module runs: those of the packages around it, and its."""
    parts = module.split(".")
    if parts[0] in VERSIONED:
        return
    for depth in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:depth])
        for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if path.is_file() and not is_installed(path.relative_to(root)):
                yield path


def _imported(path: Path, root: Path) -> list[str]:
    """Return the modules that a file may import, by dotted names seen from a folder."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # a file that is never imported may be anything
        return []
    package = path.parent.relative_to(root).parts
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *filter(None, [node.module])))
            names += [base, *(f"{base}.{alias.name}".strip(".") for alias in node.names)]
    return [name for name in names if name]
