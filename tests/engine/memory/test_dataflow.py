"""Bytes that are alive at a time, and what depends on what, worked by hand."""

import jax
import jax.numpy as jnp
import pytest

from maxfl.engine.memory.dataflow import Program

SIDE = 8
MATRIX = 4 * SIDE * SIDE
A = jnp.zeros((SIDE, SIDE))


def peak(function, *args, varying=None):
    program = Program(jax.make_jaxpr(function)(*args).jaxpr)
    return program.peak_bytes(program.inputs[:varying])


def timing(function, *args, varying=None):
    program = Program(jax.make_jaxpr(function)(*args).jaxpr)
    return program.timing_bytes(program.inputs[:varying])


def chain(a):
    return jnp.tanh(jnp.exp(a) + 1.0)


def doubled(c, _):
    return c @ c, c @ c


@pytest.mark.parametrize(
    ("function", "matrices"),
    [
        (lambda a: chain(a), 1),  # one result, nothing between
        (lambda a: a @ a, 1),
        (lambda a: chain(a) @ a, 2),  # a product reads from memory
        (lambda a: chain(a).reshape(SIDE * SIDE).reshape(SIDE, SIDE) @ a, 2),  # one value
        (lambda a: (a @ a) @ (a @ a), 3),
        (lambda a: ((a @ a) @ a) @ a, 2),  # the first one is gone
        (lambda a: jnp.exp(a @ a) + (a @ a), 3),  # both products until the result is there
        (jax.jit(lambda a: jax.jit(chain)(a) @ a), 2),  # calls return what is there already
    ],
)
def test_what_is_alive_by_hand(function, matrices):
    assert peak(function, A) == matrices * MATRIX


@pytest.mark.parametrize(("backend", "matrices"), [("gpu", 2), ("cpu", 2.5)])
@pytest.mark.parametrize("placed", [lambda a: a, jnp.transpose], ids=["as it is", "turned"])
def test_a_product_on_a_gpu_scales_smaller_numbers_on_the_way(
    monkeypatch, placed, backend, matrices
):
    """Two results, of 1 and ½; on a GPU beside the numbers of half the size, elsewhere scaled."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)

    def function(a):
        half = jax.lax.optimization_barrier(a.astype(jnp.bfloat16))
        return half @ half, placed(half.astype(jnp.float32) - 1.0) @ a

    assert peak(function, A) == matrices * MATRIX


def test_a_product_on_a_gpu_reads_what_was_repeated_from_memory(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    assert peak(lambda a: jnp.broadcast_to(jnp.exp(a[0]), A.shape) @ a, A) == 2 * MATRIX


def test_what_leads_to_nothing_is_left_out():
    def function(a):
        _ = (a @ a) @ (a @ a)
        return a @ a

    assert peak(function, A) == MATRIX


def test_a_sum_reads_what_was_never_in_memory():
    assert peak(lambda a: chain(a).sum(), A) == 4


@pytest.mark.parametrize(
    ("function", "matrices"),
    [
        (lambda w, a: w + a @ a, 0),
        (lambda w, a: 2.0 * (a @ a).T + w, 0),  # scaled and turned on the way
        (lambda w, a: w + chain(a), 1),  # no product
        (lambda w, a: w * (a @ a), 2),  # no sum
        (lambda _, a: chain(a) + a @ a, 2),  # no input, whose place it could take
        (lambda w, a: (w + a @ a, (w @ a) @ a), 2),  # the others are counted as before
    ],
)
def test_a_product_that_is_added_to_an_input_takes_its_place(function, matrices):
    assert peak(function, A, A) == matrices * MATRIX


def test_a_product_that_is_read_once_more_is_in_memory():
    def step(w, a):
        product = a @ a
        return w + product, product.sum()

    assert peak(step, A, A) == 2 * MATRIX + 4


def test_a_loop_adds_products_in_place():
    found = peak(lambda w, a: jax.lax.scan(lambda w, _: (w + a @ a, None), w, length=3)[0], A, A)
    assert found == MATRIX, "the carry alone"


@pytest.mark.parametrize(
    ("function", "matrices"),
    [
        (lambda a: 2 * a, 0),
        (jnp.tanh, 1),
        (lambda a: jnp.concatenate([a[1:], a[:1]]), 1),
    ],
)
def test_what_is_read_twice_is_computed_twice_unless_it_is_costly(function, matrices):
    def twice(a):
        b = function(a)
        return (b + 1).sum(), (b + 2).sum()

    assert peak(twice, A) == matrices * MATRIX + 8


def test_a_loop_works_beside_what_it_returns():
    # The carry and five rows; within, two products.
    found = peak(lambda a: jax.lax.scan(doubled, a, length=5), A)
    assert found == (1 + 5 + 2) * MATRIX


def test_zeros_for_a_later_loop_wait():
    def both(a, length):
        last, _ = jax.lax.scan(doubled, a, length=5)
        return jax.lax.scan(doubled, last, length=length)[1]

    # In the first loop: its carry, five rows, two products, and zeros for five rows of the second;
    # where that has another number of rows, one loop's and what it begins with.
    assert peak(lambda a: both(a, 5), A) == (1 + 5 + 2 + 5) * MATRIX
    assert peak(lambda a: both(a, 4), A) == (1 + 1 + 4 + 2) * MATRIX


def test_a_product_is_timed_with_what_it_reads_and_its_result_twice():
    assert timing(lambda a: chain(a), A) == 0
    assert timing(lambda a, b: chain(a) @ b, A, A) == 4 * MATRIX
    assert timing(lambda a, b: a @ b[:, :1], A, A) == MATRIX + 3 * (MATRIX // SIDE)
    assert timing(lambda a, b: (b @ b) @ a[:, :1], A, A, varying=1) == 3 * (MATRIX // SIDE)
    assert timing(lambda w, a: w + a @ a, A, A) == 5 * MATRIX, "what it is added to is read too"
    assert timing(lambda a: jax.lax.scan(doubled, a, length=5), A) == 4 * MATRIX


def test_branches_hold_what_they_return():
    found = peak(lambda a: jax.lax.cond(a[0, 0] > 0, lambda: a @ a, lambda: a), A)
    assert found == 4 + MATRIX


def test_a_choice_by_platform_is_the_branch_of_this_one():
    def chosen(a):
        return jax.lax.platform_dependent(a, cpu=lambda a: a, default=lambda a: a @ a @ a)

    assert peak(lambda a: chosen(chain(a)) @ a, A) == 2 * MATRIX


def test_what_does_not_vary_is_not_counted():
    assert peak(lambda a, b: (b @ b) @ a, A, A, varying=1) == MATRIX
    assert peak(lambda a, b: (b @ b) @ a, A, A) == 2 * MATRIX


@pytest.mark.parametrize(
    ("function", "depends"),
    [
        (lambda x, y: x + y, True),
        (lambda x, y: jnp.ones_like(x) * y, False),
        (lambda x, y: jax.jit(lambda _, v: v)(x, y), False),
        (lambda x, y: jax.lax.fori_loop(0, 3, lambda _, c: c * x, y), True),
    ],
)
def test_dependence(function, depends):
    program = Program(jax.make_jaxpr(function)(jnp.float32(1), jnp.float32(2)).jaxpr)
    assert (not program.depends(program.inputs[:1]).isdisjoint(program.outputs)) == depends
