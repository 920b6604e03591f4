"""Numbers are refused as training would compute with them."""

import numpy as np
import pytest

import maxfl
from maxfl.utils.errors import check_choice, check_count, check_number
from support.small import TRAINING, simulation


@pytest.mark.parametrize(
    ("value", "options", "words"),
    [
        (
            1e-300,
            {"above": 0},
            r"t = 1e-300: training computes in float32, where that is 0; expected",
        ),
        (-1e-40, {}, "where that is 0"),
        (1e300, {}, r"t = 1e\+300: .* where that is infinite; expected at most 3.4e\+38"),
        ([1.0, 1e39], {}, r"t = 1e\+39: .* infinite"),
        (1 - 1e-9, {"least": 0, "below": 1}, "where that is 1$"),
        (np.nan, {}, "expected a finite number"),
        (2**31, {"whole": True}, "expected a whole number at most 2147483647"),
        (0.5, {"whole": True}, "expected a whole number"),
        ("3", {}, None),
        ("x", {}, "t = 'x' is not a number"),
        ([[1], [2, 3]], {}, "is not a number"),
    ],
)
def test_numbers(value, options, words):
    if words is None:
        check_number("t", value, **options)
        return
    with pytest.raises(maxfl.InputError, match=words):
        check_number("t", value, **options)


def test_a_number_too_long_to_print():
    with pytest.raises(maxfl.InputError, match="an integer of thousands of digits is not a number"):
        check_number("t", 10**5000)


@pytest.mark.parametrize("value", [0, 1.18e-38, 3.4e38, -1.0, [0.1, 2]])
def test_numbers_that_float32_holds(value):
    check_number("t", value)


def test_a_seed_may_have_32_bits():
    check_number("seed", 2**32 - 1, least=0, below=2**32, whole=True)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: simulation(maxfl.fedavg(), TRAINING._replace(local_lr=1e-300)),
            r"training\.local_lr",
        ),
        (lambda: maxfl.maxfl(1e-300), r"algorithm\.temperature"),
        (lambda: maxfl.aggregators.mean(clip_norm=1e-300), r"server\.clip_norm"),
        (lambda: maxfl.fixed(1e300), r"requirement\.loss"),
        (lambda: simulation(maxfl.fedavg(), TRAINING._replace(local_steps=2**31)), r"local_steps"),
        (lambda: simulation(maxfl.fedavg(), TRAINING._replace(batch_size=2**31)), r"batch_size"),
        (lambda: simulation(maxfl.fedavg(), finetune_steps=2**31), r"finetune_steps"),
        (lambda: maxfl.solo(steps=2**40), r"requirement\.steps"),
        (lambda: maxfl.mlp(4, (10**18,), 3), r"model\.hidden"),
    ],
)
def test_the_key_is_named(make, words):
    with pytest.raises(maxfl.InputError, match=words):
        make()


def test_counts_and_choices():
    with pytest.raises(maxfl.InputError, match="expected one whole number at least 1"):
        check_count("n", "3", least=1)
    with pytest.raises(maxfl.InputError, match="from 1 to 2147483647"):
        check_count("n", 10**5000, least=1)
    with pytest.raises(maxfl.InputError, match=r"Did you mean 'seen'\?"):
        check_choice("clients", "sen", ["seen", "unseen", "all"])
    with pytest.raises(maxfl.InputError, match=r"expected one of seen, all$"):
        check_choice("clients", ["seen"], ["seen", "all"])
