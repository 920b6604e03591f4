"""Two CPU devices and a compilation cache for all tests; a small federation to train."""

import os
from pathlib import Path

import jax
import pytest

import maxfl
from support.federations import CLASSES, FEATURES, make_clients

# Nearly all of the tests' time is compilation: machine code without LLVM's optimisations takes a
# third less of it. Read when the first program is compiled; commands that tests start inherit it.
# `make test-more` sets it to nothing for tests that compare bits.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parent.parent / ".cache/jax"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@pytest.fixture(scope="session")
def small():
    """Eight clients of unequal size, two of them unseen."""
    sizes = [5, 1, 40, 17, 8, 30, 12, 9]
    return maxfl.Federation.from_clients(
        make_clients(sizes), make_clients(sizes[::-1], 1), unseen=2
    )


@pytest.fixture(scope="session")
def small_model():
    """An MLP without dropout, so that the oracle can follow it."""
    return maxfl.mlp(FEATURES, (6, 5), CLASSES, dropout=0.0)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A user's cache of its own, so that a test unpacks and downloads afresh."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
