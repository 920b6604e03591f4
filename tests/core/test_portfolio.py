"""A portfolio's rules, worked by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.algorithm import WeightedSum
from maxfl.core.portfolio import (
    PortfolioHParams,
    PortfolioState,
    Vacancy,
    add_per_model,
    best_model,
    init_portfolio,
    model_to_train,
    next_state,
    select,
    start_anew,
    vacancy,
)


def state(idle, donor=0, unmet_gap=np.inf):
    """Return what a server knows."""
    return PortfolioState(jnp.int32(idle), jnp.int32(donor), jnp.float32(unmet_gap))


def test_a_client_picks_the_least_cost_and_of_equal_ones_the_least_loss():
    cost = jnp.array([[0.5, 0.2, 0.2], [0.4, 0.2, np.nan], [0.6, 0.3, 0.1]])
    loss = jnp.array([[9.0, 3.0, 1.0], [9.0, 2.0, 1.0], [9.0, 1.0, 5.0]])
    np.testing.assert_array_equal(best_model(3, cost, loss), [1, 1, 2])
    np.testing.assert_array_equal(best_model(2, cost, loss), [1, 1, 0])
    np.testing.assert_array_equal(best_model(1, cost, loss), [0, 0, 0])


def test_costs_that_are_no_numbers_are_never_picked_unless_all_are():
    nan = jnp.full(2, np.nan)
    assert best_model(2, nan, nan) == 0
    beyond = jnp.array([np.nan, np.nan, 0.1]), jnp.array([3.0, 3.0, 1.0])
    assert best_model(2, *beyond) == 0, "a model that is not there is not the best of bad ones"
    assert best_model(2, jnp.array([np.nan, 0.3]), jnp.array([1.0, np.nan])) == 1
    # Of costs that are equally bad, the losses decide.
    assert best_model(2, jnp.array([np.nan, np.inf]), jnp.array([np.nan, 3.0])) == 1


def test_a_model_is_vacant_once_none_of_patience_times_k_clients_picked_it():
    hparams = PortfolioHParams(3, 5)
    assert not vacancy(hparams, state([0, 14, 2], unmet_gap=1.0)).is_open
    assert vacancy(hparams, state([0, 15, 17], unmet_gap=1.0)) == (2, True)
    # Of a sweep's models, those beyond K are never there; patience 0 is for ever.
    assert not vacancy(PortfolioHParams(2, 5), state([0, 9, 17], unmet_gap=1.0)).is_open
    assert not vacancy(PortfolioHParams(3, 0), state([0, 99, 7], unmet_gap=1.0)).is_open
    # Where all are satisfied, nobody would train it.
    assert not vacancy(hparams, state([0, 15, 17])).is_open


def test_a_vacant_model_starts_as_the_donor():
    models = {"w": jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])}
    there = Vacancy(jnp.int32(1), jnp.bool_(True))
    np.testing.assert_array_equal(
        start_anew(there, state([0, 5, 0], donor=2), models)["w"], [[1, 2], [5, 6], [5, 6]]
    )
    nobody = there._replace(is_open=jnp.bool_(False))
    np.testing.assert_array_equal(
        start_anew(nobody, state([0, 5, 0], donor=2), models)["w"], models["w"]
    )


@pytest.mark.parametrize(
    ("picked", "gap", "trains"),
    [(2, 0.9, 1), (2, 0.5, 1), (1, 0.9, 1), (2, 0.1, 2), (1, 0.1, 2), (0, 0.9, 0), (2, np.nan, 2)],
)
def test_the_worst_served_of_the_donors_clients_train_the_vacant_model(picked, gap, trains):
    there = Vacancy(jnp.int32(1), jnp.bool_(True))
    known = state([0, 5, 0], donor=2, unmet_gap=0.5)
    assert model_to_train(there, known, jnp.int32(picked), jnp.float32(gap)) == trains
    nobody = there._replace(is_open=jnp.bool_(False))
    assert model_to_train(nobody, known, jnp.int32(picked), jnp.float32(gap)) == picked


def test_what_the_server_knows_after_a_round():
    clients, unmet, gaps = jnp.array([4, 0, 3]), jnp.array([1, 0, 2]), jnp.array([9.0, 0.0, 1.0])
    after = next_state(state([3, 0, 8]), clients, unmet, gaps)
    np.testing.assert_array_equal(after.idle, [0, 7, 0])
    assert after.donor == 2, "of the two with clients that are not satisfied, it has more of them"
    assert after.unmet_gap == 0.5
    nothing = jnp.zeros(3)
    assert next_state(state([3, 0, 8]), clients, nothing, nothing).unmet_gap == np.inf
    nobody = next_state(state([3, 0, 8], 1, 0.7), nothing, nothing, nothing)
    np.testing.assert_array_equal(nobody.idle, [3, 0, 8])
    assert nobody.donor == 1
    assert nobody.unmet_gap == jnp.float32(0.7)


def test_sums_go_to_the_models_that_clients_trained():
    zero = WeightedSum(jnp.zeros((3, 2)), jnp.zeros(3))
    replies = WeightedSum(jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), jnp.array([1.0, 2.0, 4]))
    total = add_per_model(zero, replies, jnp.array([2, 0, 2]))
    np.testing.assert_array_equal(total.update, [[3, 4], [0, 0], [6, 8]])
    np.testing.assert_array_equal(total.weight, [2, 0, 5])
    one = add_per_model(total, WeightedSum(jnp.ones(2), jnp.float32(1)), jnp.int32(1))
    np.testing.assert_array_equal(one.update[1], [1, 1])
    np.testing.assert_array_equal(select(one.update, 2), [6, 8])


def test_nothing_is_known_before_the_first_round():
    begin = init_portfolio(2)
    np.testing.assert_array_equal(begin.idle, [0, 0])
    assert begin.unmet_gap == np.inf


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [({"models": 0}, "models"), ({"models": 1.5}, "models"), ({"patience": -1}, "patience")],
)
def test_numbers_that_can_not_be_are_refused(numbers, wrong):
    with pytest.raises(maxfl.InputError, match=rf"portfolio\.{wrong}"):
        maxfl.portfolio(**numbers)
