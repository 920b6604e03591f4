"""Processes that meet: whoever is missing, doubled or misled is named. No JAX is started here."""

import socket
import threading
import time
from contextlib import suppress
from functools import partial

import pytest

import maxfl
from maxfl.distributed import rendezvous

HOST = "127.0.0.1"


@pytest.fixture
def port():
    with socket.socket() as server:
        server.bind((HOST, 0))
        return server.getsockname()[1]


@pytest.fixture
def in_threads():
    """Call several functions at a time, and return the error of each, or None.

    The connections that they return are open until the test ends.
    """
    peers = []
    yield partial(_in_threads, peers)
    for peer in peers:
        peer.close()


def _in_threads(peers, *calls):
    errors = [None] * len(calls)

    def one(i, function, *arguments):
        try:
            given = function(*arguments) or []
            peers.extend(given if isinstance(given, list) else [given])
        except maxfl.InputError as error:
            errors[i] = str(error)

    threads = [threading.Thread(target=one, args=(i, *call)) for i, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    return errors


def test_three_processes_meet_whoever_comes_first_and_the_port_is_free_again(port, in_threads):
    roll = (rendezvous._roll_call, HOST, port, 3, 10)
    answers = [(rendezvous._answer, HOST, port, 3, p, 10) for p in (2, 1)]
    assert in_threads(*answers, roll) == [None] * 3
    socket.create_server((HOST, port), reuse_port=False).close()


def test_somebody_elses_connection_does_not_count(port, in_threads):
    def stranger():
        for words in (b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b'{"process": []}\n'):
            while True:
                try:
                    peer = socket.create_connection((HOST, port), 5)
                    break
                except OSError:
                    time.sleep(0.01)
            with peer:
                peer.sendall(words)

    def late():
        time.sleep(0.3)
        return rendezvous._answer(HOST, port, 2, 1, 10)

    assert (
        in_threads((rendezvous._roll_call, HOST, port, 2, 10), (stranger,), (late,)) == [None] * 3
    )


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([(3, 1)], "process 2 of 3 has not come in 0.5 s"),
        ([(3, 1), (3, 1)], "two processes have the number 1"),
        ([(4, 1)], "process 1 expects 4 processes, and process 0 expects 3"),
    ],
)
def test_all_learn_what_is_wrong(port, in_threads, others, words):
    answers = [(rendezvous._answer, HOST, port, count, p, 5) for count, p in others]
    errors = in_threads((rendezvous._roll_call, HOST, port, 3, 0.5), *answers)
    assert all(words in error for error in errors)


def test_one_that_comes_and_dies_ends_the_wait_of_all(port, in_threads):
    def dies():
        while True:
            with suppress(OSError), socket.create_connection((HOST, port), 5) as peer:
                rendezvous._send(peer, {"processes": 4, "process": 2})
                time.sleep(1.0)
                return

    began = time.monotonic()
    stays = (rendezvous._answer, HOST, port, 4, 1, 10)
    errors = in_threads((rendezvous._roll_call, HOST, port, 4, 15), stays, (dies,))
    assert all("process 2 came and has ended" in error for error in errors[:2])
    assert time.monotonic() - began < 5


def test_process_0_that_is_not_there_or_can_not_listen(port):
    with pytest.raises(maxfl.InputError, match=f"can't be reached at {HOST}:{port} for 0.3 s"):
        rendezvous._answer(HOST, port, 2, 1, 0.3)
    with (
        socket.create_server((HOST, port)),
        pytest.raises(maxfl.InputError, match="choose another port"),
    ):
        rendezvous._roll_call(HOST, port, 2, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("127.0.0.1", 2, 0), "expected the address and a port"),
        (("127.0.0.1:99999", 2, 0), "expected the address and a port"),
        ((None, 2, 0), "expected the address and a port"),
        (("127.0.0.1:1234", None, 0), "processes = None"),
        (("127.0.0.1:1234", 2, -1), "process = -1"),
        (("127.0.0.1:1234", 2, 2), "2 processes have the numbers 0 to 1"),
    ],
)
def test_what_is_not_a_place_among_processes(arguments, words):
    with pytest.raises(maxfl.InputError, match=words):
        maxfl.join(*arguments)
