"""What single clients require."""

import numpy as np
import pytest

import maxfl


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([],), "expected a finite number, or NaN, for each client"),
        ((["much"],), "values = .'much'.: expected numbers"),
        (([[1.0]],), "shape .1, 1."),
        (([np.inf],), "expected a finite number"),
        (([1.0, -2.0],), "some values are below 0, which no loss is"),
        (([1.0, 2.0], [1.0]), "2 values and 1 for test data"),
        (([1.0], {"a": 1.0}), "both by name, or both in order"),
        (({"a": 1.0}, [1.0]), "both by name, or both in order"),
    ],
)
def test_bad_values_of_single_clients_are_refused(arguments, words):
    with pytest.raises(maxfl.InputError, match=words):
        maxfl.per_client(*arguments)
