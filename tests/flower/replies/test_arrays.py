"""Arrays of a message: read where they lie, of every kind that a model may have."""

import gc
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import Array

from maxfl.core import aggregators
from maxfl.flower import MaxFL, Privacy
from maxfl.flower.aggregation import RoundTotal
from maxfl.flower.replies import arrays as arrays_module
from maxfl.flower.replies.arrays import norm_of_update, read_array, to_arrays, update_pieces
from maxfl.flower.replies.pieces import PIECE, in_threads
from maxfl.flower.server.step import Rates, step_along
from maxfl.flower.sums import Counts, RoundSums
from maxfl.utils.errors import InputError
from support.flower_nodes import Nodes, arrays, make_app, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)),
     np.float32(3), np.zeros((0, 4)), np.array([True, False]), np.arange(3, dtype=np.float16)],
)  # fmt: skip
def test_arrays_are_read_where_they_lie(array):
    sent = Array(np.asarray(array))
    (found,) = to_arrays(arrays({"w": np.asarray(array)})).values()
    np.testing.assert_array_equal(found, array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert not found.flags.writeable, "it is in the message"
    np.testing.assert_array_equal(read_array(sent.data, array.shape, array.dtype), array)


@pytest.fixture
def hasty_threads():
    """Threads that take turns at every step, also while garbage is collected, as JAX lets them."""
    before, threshold = sys.getswitchinterval(), gc.get_threshold()

    def collected(*_):
        sum(range(3))

    sys.setswitchinterval(1e-6)
    gc.set_threshold(20)
    gc.callbacks.append(collected)
    yield
    gc.callbacks.remove(collected)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(before)


def test_one_thread_at_a_time_reads_headers(monkeypatch):
    busy, found_busy, calls = Lock(), [], []
    (version, reads), *_ = arrays_module.HEADERS.items()

    def slowly(stream):
        calls.append(1)
        if busy.acquire(blocking=False):
            time.sleep(0.01)
            busy.release()
        else:
            found_busy.append(1)
        return reads(stream)

    monkeypatch.setitem(arrays_module.HEADERS, version, slowly)
    sent = Array(np.zeros(3, np.float32))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: to_arrays({"w": sent})["w"].shape, range(8)))
    assert found == [(3,)] * 8
    assert len(calls) == 8
    assert not found_busy


@pytest.mark.usefixtures("hasty_threads")
def test_arrays_are_read_by_several_threads_at_once():
    """Where Python's parser of literals, which NumPy reads headers by, fails among threads."""
    sent = Array(np.zeros((3, 4, 5), np.float32))

    def read(_):
        return [read_array(sent.data, (3, 4, 5), np.dtype(np.float32)) for _ in range(30)]

    for _ in range(20):
        for found in in_threads(read, range(8)):
            assert [type(each) for each in found] == [np.ndarray] * 30


def test_the_norm_is_that_of_all_pieces():
    rng = np.random.default_rng(0)
    before = {"w": rng.normal(size=2 * PIECE + 5).astype(np.float32), "n": np.array([7])}
    after = {"w": rng.normal(size=2 * PIECE + 5).astype(np.float32), "n": np.array([900])}
    difference = (before["w"] - after["w"]).astype(np.float64)
    assert norm_of_update(before, after, exact=True) == pytest.approx(
        np.linalg.norm(difference), rel=1e-12
    )
    rough = norm_of_update(before, after, exact=False)
    assert rough == pytest.approx(np.linalg.norm(difference), rel=1e-4)
    places = [place.start for place, _ in update_pieces(before["w"], after["w"])]
    assert places == [0, PIECE, 2 * PIECE]


def changed_to(values):
    """A client that sends back these arrays."""
    honest = make_app(1.0, 2.0)

    def answer(message, context):
        reply = honest(message, context)
        reply.content["arrays"] = arrays(values)
        return reply

    return answer


def test_a_forged_shape_that_equals_the_right_one_ends_nothing():
    data = Array(np.ones((1, 1), np.float32)).data.replace(b"(1, 1), }  ", b"(True, 1), }")
    found = read_array(data, (1, 1), np.dtype(np.float32))
    assert isinstance(found, str) or found.tolist() == [[1.0]]


def test_updates_of_half_precision_are_subtracted_in_single():
    before, after = np.array([1.0, 100.0], np.float16), np.array([1e-4, -65504.0], np.float16)
    ((_, piece),) = update_pieces(before, after)
    np.testing.assert_array_equal(piece, before.astype(np.float32) - after.astype(np.float32))


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_first_or_rows_first_the_step_is_the_same(order):
    start = {"w": np.asarray(np.arange(6.0, dtype=np.float32).reshape(2, 3), order=order)}
    change = np.arange(6.0, dtype=np.float32).reshape(2, 3) / 8
    sent = [{"w": np.asarray(start["w"] - change, order=other)} for other in ("C", "F")]
    ((model, _),) = train(MaxFL(epsilon=0), Nodes(*map(changed_to, sent)), start=start)
    np.testing.assert_array_equal(model["w"], start["w"] - change)
    sums = RoundSums({"w": np.asfortranarray(change)}, 1.0, 1, 0, 1)
    total, config = RoundTotal(Counts(1), sums), MaxFL(epsilon=0)._config
    stepped = step_along(config, Rates(1.0), start, total, {})
    np.testing.assert_array_equal(stepped.arrays["w"], start["w"] - change)


def test_an_update_without_a_finite_length_is_rejected():
    start = {"w": np.array([1e300, 0.0])}
    sent = [{"w": np.array([-1e300, 1.0])}, {"w": np.array([1e300, 1.0])}]
    strategy = MaxFL()
    train(strategy, Nodes(*map(changed_to, sent)), start=start)
    assert strategy.rounds[0].counts.rejected == 1


@pytest.mark.parametrize("aggregator", [aggregators.mean(), aggregators.median()])
def test_half_precision_is_averaged_and_whole_numbers_stay(aggregator):
    start = {
        "w": np.array([1.0, 2.0], np.float16),
        "steps": np.array(7, np.int64),
        "mask": np.array([True, False]),
    }
    sent = [start | {"w": start["w"] - np.float16(change), "steps": np.array(int(1e9)),
                     "mask": np.array([False, True])} for change in (0.25, 0.75, 0.5)]  # fmt: skip
    strategy = MaxFL(epsilon=0, aggregator=aggregator)
    ((model, _),) = train(strategy, Nodes(*[changed_to(values) for values in sent]), start=start)
    np.testing.assert_array_equal(model["w"], np.array([0.5, 1.5], np.float16))
    assert model["w"].dtype == np.float16
    for name in ("steps", "mask"):
        np.testing.assert_array_equal(model[name], start[name])
        assert model[name].dtype == start[name].dtype


@pytest.mark.parametrize(
    ("array", "options", "words"),
    [(np.array(["a"]), {}, "w is of type <U1: expected numbers that can be averaged"),
     (np.array([1j]), {}, "w is of type complex128"),
     (np.array([b"\x00\x00"], "V2"), {}, "bfloat16 does not survive NumPy's format"),
     (np.array([1]), {"privacy": Privacy(clip=1.0, secure=True), "fraction_evaluate": 0},
      "which can't be summed securely: leave it out"),
     (np.float32(1), {"privacy": Privacy(clip=1.0, secure=True), "fraction_evaluate": 0},
      "a single number without a dimension")],
)  # fmt: skip
def test_what_cannot_be_averaged_is_refused_before_anybody_trains(array, options, words):
    asked = []
    nodes = Nodes(lambda message, _: asked.append(message))
    with pytest.raises(InputError, match=words):
        MaxFL(**options).start(nodes, arrays({"w": array}), num_rounds=2)
    assert not asked
