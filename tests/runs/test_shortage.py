"""Too little disk or memory ends in a message that says what to change; what was done is kept."""

import json
import resource
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from support.federations import make_clients
from maxfl.core.federation_files import write_federation
from maxfl.engine.shortage import told_if_out_of_memory
from maxfl.engine.streaming.simulation import StreamingSimulation, stream
from maxfl.utils.disk_space import check_room, free_room, readable
from maxfl.utils.errors import DiskFullError, OutOfMemoryError
from support.resumable import results, simulation
from support.streamed import MODEL, OPTIONS, SIZES, TRAINING

pytestmark = pytest.mark.processes

CACHED = "jax_persistent_cache_min_compile_time_secs"


@contextmanager
def largest_file(size):
    """Let the system refuse more, as a full disk does."""
    before, cached = resource.getrlimit(resource.RLIMIT_FSIZE), getattr(jax.config, CACHED)
    jax.config.update(CACHED, 1e9)  # the cache of compiled programs has larger files
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        jax.config.update(CACHED, cached)


def clients():
    return zip(make_clients([9, 5, 7]), make_clients([3, 4, 5]), strict=True)


def test_bytes_for_people():
    assert [readable(n) for n in (0, 999, 1000, 2.5e9, 3e15)] == [
        "0 bytes", "999 bytes", "1 kB", "2.5 GB", "3e+03 TB",
    ]  # fmt: skip


def test_what_will_not_fit_is_not_begun(tmp_path, monkeypatch):
    assert free_room(tmp_path / "not" / "there") == free_room(tmp_path)
    with pytest.raises(DiskFullError, match=r"the run will take 1e\+06 TB in .* are free: go"):
        check_room(tmp_path, 10**18, "the run", "go elsewhere")
    with pytest.raises(DiskFullError, match=r"the federation will take 1e\+06 TB"):
        write_federation(tmp_path / "own", clients(), classes=3, room=10**18)
    assert not (tmp_path / "own").exists()
    monkeypatch.setattr("maxfl.utils.disk_space.free_room", lambda _: 100)
    with pytest.raises(DiskFullError, match=r"100 bytes are free: choose .* lower training.rounds"):
        maxfl.run(simulation(), tmp_path / "run")


def test_a_full_disk_ends_the_writing_of_a_federation(tmp_path):
    with largest_file(200), pytest.raises(DiskFullError, match="was written is removed"):
        write_federation(tmp_path / "own", clients(), classes=3)
    assert not list((tmp_path / "own").iterdir())
    write_federation(tmp_path / "own", clients(), classes=3)


def test_a_full_disk_keeps_what_is_done(tmp_path):
    """A checkpoint's index grows with every block: at some time it does not fit any more."""
    folder, sizes = tmp_path / "run", {}

    def measure(stage, done, _):
        if stage == "rounds":
            index = tmp_path / "whole/checkpoint/checkpoint.json"
            sizes[done] = index.stat().st_size

    def make():
        return simulation(training={"rounds": 12})

    whole = results(maxfl.run(make(), tmp_path / "whole", progress=measure))
    words = r"no room is left in .*make room.*--resume.*--out"
    with largest_file(sizes[8]), pytest.raises(DiskFullError, match=words):
        maxfl.run(make(), folder)
    assert json.loads((folder / "checkpoint/checkpoint.json").read_text())["blocks"] == 9
    maxfl.run(make(), folder, resume=True)
    assert results(folder) == whole


def streamed():
    """What test_stream trains, from memory: SCAFFOLD, whose clients keep something."""
    both = make_clients(SIZES), make_clients(SIZES[::-1])
    return maxfl.Federation.from_clients(*both, unseen=2), MODEL, maxfl.scaffold(), TRAINING


def test_a_full_disk_ends_a_stream(tmp_path):
    own = StreamingSimulation(*streamed(), **OPTIONS)
    row = 4 * sum(leaf.size for leaf in jax.tree.leaves(own.start().server.params))
    words = "what clients keep, which takes up to .* give stream"
    with largest_file(2 * row), pytest.raises(DiskFullError, match=words):
        stream(*streamed(), folder=tmp_path, **OPTIONS)
    assert not list(tmp_path.iterdir())


def out_of_memory(stage, *_):
    """Ask JAX for more than any machine has."""
    if stage == "rounds":
        jnp.zeros(1 << 44).block_until_ready()


def test_too_little_memory_is_told_with_what_was_predicted(tmp_path):
    words = r"out of memory \(RESOURCE_EXHAUSTED.* needs about .* 1 client at once: lower training"
    with pytest.raises(OutOfMemoryError, match=words):
        maxfl.simulate(*streamed(), progress=out_of_memory, **OPTIONS)
    with pytest.raises(OutOfMemoryError, match=r"lower training.cohort.*panel"):
        stream(*streamed(), progress=out_of_memory, **OPTIONS)
    with pytest.raises(OutOfMemoryError, match=r"keeps what is done: add --resume"):
        maxfl.run(simulation(), tmp_path / "run", progress=out_of_memory)
    assert (tmp_path / "run/checkpoint/checkpoint.json").exists()
    own = maxfl.Simulation(*streamed(), seed=[0, 1], at_once=2)
    words = r"2 clients at once: lower at_once .* below 2"
    with pytest.raises(OutOfMemoryError, match=words), told_if_out_of_memory(own):
        np.zeros(1 << 50)
