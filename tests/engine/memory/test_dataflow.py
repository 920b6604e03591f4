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


def test_a_sum_reads_what_was_never_in_memory():
    assert peak(lambda a: chain(a).sum(), A) == 4


def test_a_loop_works_beside_what_it_returns():
    # The carry and five rows; within, two products.
    found = peak(lambda a: jax.lax.scan(doubled, a, length=5), A)
    assert found == (1 + 5 + 2) * MATRIX


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
