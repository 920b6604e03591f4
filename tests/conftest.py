"""Two CPU devices and a compilation cache for all tests; a bound on the programs they compile."""

import os
import sys
from pathlib import Path

import jax
import pytest

from maxfl.runs.plugins import resolve
from support import memory_maps
from support import small as shared
from support.block_programs import BLOCKS

# Nearly all of the tests' time is compilation. Machine code without LLVM's optimisations, made by
# XLA's old emitters, takes two fifths of the CPU time to compile. Read when the first program is
# compiled; commands that tests start inherit it. `make test-more` sets it to nothing for tests that
# compare bits.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1",
)
CACHE = os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".cache/jax")
)
jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_compilation_cache_dir", CACHE)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@pytest.fixture(scope="session")
def small():
    """Eight clients of unequal size, two of them unseen."""
    return shared.SMALL


@pytest.fixture(scope="session")
def small_model():
    """An MLP without dropout, so that the oracle can follow it."""
    return shared.MODEL


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A user's cache for this test alone, so that it unpacks and downloads afresh."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    """Write modules into the current folder, a new one; in the end they are forgotten."""
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(**modules):
        forget()
        for name, text in modules.items():
            (folder / f"{name}.py").write_text(text)
        return folder

    def forget():
        resolve._load.cache_clear()
        for name, module in [*sys.modules.items()]:
            if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
                del sys.modules[name]

    yield write
    forget()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    if nextitem is None or nextitem.path != item.path:
        memory_maps.release_programs()


def pytest_addoption(parser):
    words = "fail if the tests compile more different programs of blocks of rounds"
    parser.addoption("--most-block-programs", type=int, help=words)


def pytest_configure():
    BLOCKS.listen()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    BLOCKS.keys.update(getattr(node, "workeroutput", {}).get("blocks", ()))


def pytest_sessionfinish(session, exitstatus):
    config = session.config
    if hasattr(config, "workeroutput"):  # a worker of xdist
        config.workeroutput["blocks"] = sorted(BLOCKS.keys)
    elif exitstatus == pytest.ExitCode.OK and _too_many(config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.write_line(f"{len(BLOCKS.keys)} programs of blocks of rounds")
    if _too_many(config):
        most = config.option.most_block_programs
        words = f"FAILED: expected at most {most}; share what tests/support/small.py has"
        terminalreporter.write_line(words, red=True)


def _too_many(config):
    """Tell whether the tests compile more programs than they were allowed."""
    most = config.option.most_block_programs
    return most is not None and len(BLOCKS.keys) > most
