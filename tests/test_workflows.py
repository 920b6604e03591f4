"""The forge's workflows do what the Makefile does, and keep to their rules."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML not installed")

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))


def jobs(path):
    return yaml.safe_load(path.read_text())["jobs"]


def test_there_are_three():
    assert [path.stem for path in WORKFLOWS] == ["docs", "release", "tests"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_they_run_targets_that_exist_and_no_others(path):
    steps = [step for job in jobs(path).values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands
    assert all(command.split()[:1] == ["make"] for command in commands)
    assert {command.split()[1] for command in commands} <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_they_may_do_little_and_end(path):
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    for name, job in jobs(path).items():
        assert job["timeout-minutes"] <= 90
        rights = set(job.get("permissions", {}))
        assert rights <= ({"id-token", "pages"} if name in ("deploy", "publish") else set())


LINTERS = {
    "yamllint": ["--strict", "--config-file", "deploy/.yamllint.yaml", ".github/workflows"],
    "zizmor": ["--offline", "--quiet", ".github/workflows"],
    "check-jsonschema": [
        "--builtin-schema", "vendor.github-workflows",
        *(str(path.relative_to(ROOT)) for path in WORKFLOWS),
    ],
}  # fmt: skip


@pytest.mark.extras
@pytest.mark.parametrize("linter", LINTERS)
def test_linters_find_nothing(linter):
    program = Path(sys.executable).with_name(linter)
    if not program.exists():
        pytest.skip(f"{linter} not installed")
    done = subprocess.run(
        [program, *LINTERS[linter]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
