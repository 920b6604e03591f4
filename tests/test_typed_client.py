"""Type checkers see maxfl's types in the code of those who use it: tests/support/typed_client."""

import subprocess
import sys

import pytest

from support.commands import ROOT

CLIENT = ROOT / "tests/support/typed_client"
CHECKERS = {
    "mypy": ["--strict", "--config-file=", f"--cache-dir={ROOT / '.mypy_cache/typed_client'}"],
    "pyright": ["--pythonpath", sys.executable, "--project", "."],
}

pytestmark = pytest.mark.extras


def check(checker, folder):
    """Check client.py of a folder; return the exit status and what was printed."""
    pytest.importorskip(checker)
    files = ["client.py"] if checker == "mypy" else []
    command = [sys.executable, "-m", checker, *CHECKERS[checker], *files]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_client_project_is_strictly_typed(checker):
    code, text = check(checker, CLIENT)
    assert code == 0, text


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_wrong_type_is_found(checker, tmp_path):
    text = (CLIENT / "client.py").read_text()
    (tmp_path / "pyrightconfig.json").write_text((CLIENT / "pyrightconfig.json").read_text())
    text = text.replace("Training(rounds=2,", 'Training(rounds="two",')
    text = text.replace("assert_type(history, maxfl.History)", "assert_type(history, int)")
    (tmp_path / "client.py").write_text(text)
    code, text = check(checker, tmp_path)
    assert code == 1, text
    assert text.count("error:") == 2, text


@pytest.mark.filterwarnings("ignore::maxfl.TrainingWarning")
def test_the_client_project_runs():
    done = subprocess.run(
        [sys.executable, CLIENT / "client.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "loss-weighted" in done.stdout
