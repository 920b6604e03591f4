"""Connections that stay open: who leaves without a goodbye is missed."""

import socket
import sys
import threading

import pytest

from maxfl.distributed import liveness


@pytest.mark.parametrize("in_order", [True, False])
def test_whoever_hangs_up_without_a_goodbye_is_missed(monkeypatch, in_order):
    ended = threading.Event()
    monkeypatch.setattr(liveness, "_end", lambda *_: ended.set())
    monkeypatch.setattr(sys, "last_value", None if in_order else ValueError(), raising=False)
    here, there = socket.socketpair()
    with here, there:
        watch = threading.Thread(target=liveness._watch, args=([here], lambda: "gone"))
        watch.start()
        assert not ended.wait(0.1), "whoever is silent is there"
        liveness._leave([there])
        watch.join(5)
        assert not watch.is_alive()
    assert ended.is_set() != in_order
