"""Clients over rounds, packed for the page."""

import base64
import zlib

import numpy as np

from maxfl.report.page_data import choose, pack
from maxfl.report.source import read
from maxfl.report.traces import read_trace
from support.made_runs import CLIENTS, ROUNDS


def test_packed_clients_come_back(folders):
    trace = read_trace(read(folders[:1]).configurations[0])
    small = pack(trace)
    whole = np.frombuffer(zlib.decompress(base64.b64decode(small.text)), np.uint8)
    shape = (CLIENTS, ROUNDS + 1)
    size = CLIENTS * (ROUNDS + 1)
    flags = whole[:size].reshape(shape).T
    assert np.array_equal(flags & 1 > 0, trace.satisfied)
    assert np.array_equal(flags & 4 > 0, trace.sampled)
    low, high = (whole[size + i * size :][:size].reshape(shape).astype(np.uint16) for i in (0, 1))
    gap = (low | high << 8).cumsum(1, dtype=np.uint16).view(np.int16).T * small.scale
    np.testing.assert_allclose(gap, trace.gap, atol=small.scale)


def test_large_pages_show_fewer_seeds_then_fewer_rounds(folders):
    source = read(folders)
    traces = {("", c.method, c.seed): read_trace(c) for c in source.configurations}
    whole = choose(traces)
    assert len(whole.packed) == 4
    assert whole.note == ""
    size = sum(len(p.text) for p in whole.packed.values())
    fewer = choose(traces, size - 1)
    assert [key[2] for key in fewer.packed] == [0, 0]
    assert "one seed of each method" in fewer.note
    least = choose(traces, size // 3)
    rounds = next(iter(least.packed.values())).rounds
    assert rounds[0] == 0
    assert rounds[-1] == ROUNDS
    assert len(rounds) < ROUNDS + 1
    assert choose(traces, 10).packed == {}
