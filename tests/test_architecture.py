"""Who may import whom, and how large a folder may be: docs/design.md draws the layers."""

import ast
import functools
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

import maxfl

ROOT = Path(maxfl.__file__).parent
LAYERS = [
    "utils", "core", "algorithms data distributed models", "engine report", "runs",
    "flower paper", "cli",
]  # fmt: skip
RANK = {folder: rank for rank, line in enumerate(LAYERS) for folder in line.split()}
NEVER = {("engine", "data"), ("engine", "algorithms"), ("engine", "models")}
"""The engine knows no method, no data set and no model."""
LIGHT = {"core", "engine", "algorithms", "distributed", "models", "utils"}
"""Folders that need JAX, optax and NumPy alone; files are written as safetensors."""
ALLOWED = {"jax", "optax", "numpy", "safetensors"}
OPTIONAL = {"maxfl.models.libraries.nnx": "flax", "maxfl.models.libraries.equinox": "equinox"}
"""Adapters, and the package that each imports when it is called."""
CONVENIENCES: set[tuple[str, str]] = {
    ("maxfl.core.federation", "maxfl.data.arrays"),
    ("maxfl.core.federation", "maxfl.data.partition"),
    ("maxfl.core.federation", "maxfl.data.tables.frames"),
    ("maxfl.core.federation", "maxfl.data.tables.roles"),
    ("maxfl.engine.history", "maxfl.runs.frames"),
    ("maxfl.engine.history", "maxfl.runs.inline"),
    ("maxfl.engine.trainer", "maxfl.runs.progress_bar"),
    ("maxfl.report", "maxfl.runs.inline"),
}
"""Methods that users look for on an object, though their code lies above it: imported when called,
by nothing that computes."""
MOST_MODULES, MOST_ENTRIES = 20, 14


class Import(NamedTuple):
    """One module that imports another, both as dotted names."""

    module: str
    imported: str
    package: str


def modules() -> dict[str, Path]:
    """Every module of the package by dotted name; apps that are copied for users are not of it."""
    found = {}
    for path in ROOT.rglob("*.py"):
        if "app_template" not in path.parts:
            parts = ("maxfl", *path.relative_to(ROOT).with_suffix("").parts)
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


@functools.cache
def imports() -> list[Import]:
    """Every import: at the top, inside functions and under TYPE_CHECKING."""
    found = []
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}: relative import"
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [name if name in MODULES else str(node.module) for name in inner]
            else:
                continue
            found += [Import(module, name, name.partition(".")[0]) for name in names]
    return found


def folder(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_imports_run_downwards():
    for module, imported, package in imports():
        here, there = folder(module), folder(imported)
        if (module, imported) in CONVENIENCES:
            continue
        if package == "maxfl" and here and here != there:
            assert there, f"{module} imports the public names: import from the module itself"
            assert RANK[here] > RANK[there], f"{module} imports {imported}, which lies above it"
            assert (here, there) not in NEVER, f"{module} imports {imported}"


def test_the_engine_does_not_know_what_streams():
    for module, imported, _ in imports():
        if module.startswith("maxfl.engine.") and ".streaming" not in module:
            assert ".streaming" not in imported, f"{module} imports {imported}"


def test_the_engine_needs_few_packages():
    import sys

    for module, imported, package in imports():
        if folder(module) in LIGHT and package not in ("maxfl", *ALLOWED, OPTIONAL.get(module)):
            assert package in sys.stdlib_module_names, f"{module} imports {imported}"


@pytest.mark.parametrize("module", OPTIONAL)
def test_adapters_import_their_package_when_called(module):
    for node in ast.parse(MODULES[module].read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert OPTIONAL[module] not in ast.unparse(node).split(".")[0]


@pytest.mark.parametrize(("module", "imported"), sorted(CONVENIENCES))
def test_conveniences_are_imported_when_called(module, imported):
    for node in ast.parse(MODULES[module].read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert imported not in ast.unparse(node)


def test_no_file_imports_itself_by_a_circle():
    below: dict[str, set[str]] = {module: set() for module in MODULES}
    for module, imported, package in imports():
        if package == "maxfl" and module != "maxfl" and (module, imported) not in CONVENIENCES:
            below[module].add(imported)
    done: set[str] = set()

    def follow(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"a circle: {' -> '.join((*path, module))}"
        if module not in done:
            for imported in sorted(below[module]):
                follow(imported, (*path, module))
            done.add(module)

    for module in below:
        follow(module, ())


def test_the_top_level_stays_small():
    entries = {path.name for path in ROOT.iterdir()} - {"__pycache__"}
    assert entries == {*RANK, "__init__.py", "py.typed"}
    assert len(entries) <= MOST_ENTRIES


@pytest.mark.parametrize(
    "place", sorted({path.parent for path in MODULES.values()}), ids=lambda p: p.name
)
def test_a_folder_is_small_and_says_what_belongs_there(place):
    assert len(list(place.glob("*.py"))) <= MOST_MODULES
    doc = ast.get_docstring(ast.parse((place / "__init__.py").read_text(encoding="utf-8")))
    assert doc, f"{place} does not say what belongs there"


def test_every_module_has_a_test_or_is_listed():
    """CONTRIBUTING says where a module without a test file of its own is tested."""
    tests = Path(__file__).parent
    page = (tests.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page[page.index("| modules | tested in |") :].split("\n\n")[0].splitlines()[2:]
    listed = {name for row in table for name in row.split("|")[1].strip().split(", ")}
    without = {
        str(path.relative_to(ROOT).with_suffix(""))
        for path in MODULES.values()
        if path.name != "__init__.py"
        and not (tests / path.relative_to(ROOT)).with_name(f"test_{path.name}").is_file()
    }
    assert without == listed


def test_the_list_of_public_names_is_the_one_that_type_checkers_see():
    (block,) = (
        node
        for node in ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.If)
    )
    seen = {alias.asname for node in block.body for alias in node.names}  # type: ignore[attr-defined]
    assert seen == set(maxfl.__all__)
    missing = set() if find_spec("flwr") else {"flower"}
    assert all(hasattr(maxfl, name) for name in set(maxfl.__all__) - missing)
