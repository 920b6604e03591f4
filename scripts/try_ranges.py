"""Run tests with the oldest and the newest versions of dependencies that pyproject.toml allows.

    python scripts/try_ranges.py [lowest] [newest]

Each has an environment of its own in .cache/ranges/, made anew: `make ranges`.
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".cache" / "ranges"
EXTRAS = ("digits", "tensorboard", "flax", "equinox", "privacy", "hf")
"""Extras that are tried along; Flower's range is two versions wide, and trackers' are of APIs."""
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "pyyaml")
TESTS = ("tests/core", "tests/data", "tests/models", "tests/cli/test_app.py", "tests/report")
CHOSEN = "not slow and not processes"


def main() -> None:
    """Try both ends, or those that are named."""
    ends = sys.argv[1:] or ["lowest", "newest"]
    failed = [end for end in ends if not works(end)]
    if failed:
        sys.exit(f"Tests fail with the {' and the '.join(failed)} versions: change pyproject.toml")


def works(end: str) -> bool:
    """Tell whether the tests pass with the versions at one end."""
    folder = PLACE / end
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(lower_bounds()) if end == "lowest" else "")
    python = [folder / "bin" / "python", "-m"]
    what = ["--editable", f".[{','.join(EXTRAS)}]", *TOOLS]
    install = [*python, "pip", "install", "--quiet", "--no-compile", "-c", constraints, *what]
    print(f"The {end} versions:", flush=True)
    if subprocess.run(install, cwd=ROOT, check=False).returncode:
        return False
    print(*installed(folder / "bin" / "python"), flush=True)
    # Old versions use what new ones of others deprecate; that is not ours to change.
    quietly = ["--quiet", "-W", "ignore::DeprecationWarning"]
    tests = [*python, "pytest", *quietly, "-m", CHOSEN, *TESTS]
    return subprocess.run(tests, cwd=ROOT, check=False).returncode == 0


def installed(python: Path) -> list[str]:
    """Return what pip chose of the packages that pyproject.toml names."""
    command = [python, "-m", "pip", "list", "--format=freeze"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    names = {canonicalize_name(Requirement(line).name) for line in lower_bounds()}
    return [line for line in listed if canonicalize_name(line.partition("==")[0]) in names]


def lower_bounds() -> Iterator[str]:
    """List what pyproject.toml asks for, each at its lower bound, as pip's constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for line in (*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])):
        requirement = Requirement(line)
        (least,) = (bound.version for bound in requirement.specifier if bound.operator == ">=")
        yield f"{requirement.name}=={least}"


if __name__ == "__main__":
    main()
