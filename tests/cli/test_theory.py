"""``maxfl theory``: mistakes are named as they were typed."""

import pytest

from maxfl.cli.app import app
from maxfl.utils.errors import InputError


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("mean-estimation --variance -1", "--variance = -1: expected a finite number above 0"),
        ("weight-curve --temperature 0", "--temperature = 0: expected a finite number above 0"),
        ("weight-curve --temperature 1 --temperature 1", "--temperature 1: give each temperature"),
        ("convergence --rounds 3", "--rounds 3: give at least two different R"),
    ],
)
def test_mistakes_are_named_as_typed(arguments, words):
    with pytest.raises(InputError) as caught:
        app(["theory", *arguments.split()], standalone_mode=False)
    assert words in str(caught.value)


@pytest.mark.parametrize("option", ["--draws", "--seed"])
def test_counts_out_of_range_are_named_as_typed(maxfl, option):
    assert option in maxfl("theory", "mean-estimation", option, "-1", code=2)
