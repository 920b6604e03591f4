"""Build the package, look it over, and try its wheel in an environment of its own.

    python scripts/release.py [--tag v0.2.0]

What is built is in dist/; nothing is uploaded. Needs the extra ``release``: `make release`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
COMMANDS = (
    ["--version"],
    ["demo", "--out", "demo"],
    ["examples"],
    ["examples", "examples"],
    ["run", "examples/opt-out.toml", "--set", "training.rounds=5", "--out", "run"],
)
"""What must work where there is nothing but the wheel."""


def main() -> None:
    """Do all of it; the first mistake ends it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tag", help="the tag that is released, such as v0.2.0")
    if tag := parser.parse_args().tag:
        check_tag(tag)
    wheel = build_twice()
    check_files()
    with tempfile.TemporaryDirectory() as folder:
        try_wheel(wheel, Path(folder))
    print(f"Ready to be published: {', '.join(path.name for path in sorted(DIST.iterdir()))}")


def check_tag(tag: str) -> None:
    """Refuse a tag of another version, and a version whose changes are not yet dated."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    if tag != f"v{version}":
        sys.exit(f"The tag {tag} is not v{version}, the version in pyproject.toml: change one")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changes, re.M):
        sys.exit(f'CHANGELOG.md has no line "## {version} (YEAR-MONTH-DAY)": write the date')


def build_twice() -> Path:
    """Build both files, the wheel from the other, and once more from the tree; return the wheel.

    Equal bytes mean that anybody can build them, and that the source distribution is whole.
    """
    shutil.rmtree(DIST, ignore_errors=True)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
    with tempfile.TemporaryDirectory() as folder:
        call([*build, str(DIST), "."], cwd=ROOT)
        call([*build, folder, "--sdist", "--wheel", "."], cwd=ROOT)
        for path in DIST.iterdir():
            if path.read_bytes() != (Path(folder) / path.name).read_bytes():
                sys.exit(f"{path.name} differs when it is built again: compare what is in both")
    (wheel,) = DIST.glob("*.whl")
    return wheel


def check_files() -> None:
    """Look over what an index and an installer read."""
    files = sorted(map(str, DIST.iterdir()))
    call([sys.executable, "-m", "twine", "check", "--strict", *files], cwd=ROOT)
    call([sys.executable, "-m", "check_wheel_contents", str(DIST)], cwd=ROOT)


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel in a new environment, and run its commands in another folder."""
    call([sys.executable, "-m", "venv", "environment"], cwd=folder)
    commands = folder / "environment" / "bin"
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    install = [str(commands / "python"), "-m", "pip", "install", "--quiet"]
    call([*install, "--constraint", str(ROOT / "constraints.txt"), str(wheel)], cwd=elsewhere)
    for command in COMMANDS:
        call([str(commands / "maxfl"), *command], cwd=elsewhere)


def call(command: list[str], cwd: Path) -> None:
    """Run a command, which is printed; what fails ends the script."""
    print("$", *command, flush=True)
    # Nothing of this clone may help what is tried.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if code := subprocess.run(command, cwd=cwd, env=environment, check=False).returncode:
        sys.exit(f"{Path(command[0]).name} failed with exit status {code}: see above")


if __name__ == "__main__":
    main()
