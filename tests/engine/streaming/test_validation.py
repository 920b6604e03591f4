"""What can't be streamed is refused before anything is read."""

import pytest

import maxfl


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((), {"seed": -1}, "seed = -1"),
        (({"rounds": 3},), {}, "stands for the Training"),
        ((), {"participation": maxfl.opt_out()}, "max_candidates = 5000"),
        ((), {"max_candidates": 5}, "max_candidates is for opt-out"),
    ],
)
def test_a_mistake_is_told_first(small, small_model, arguments, options, words):
    with pytest.raises(maxfl.InputError, match=words):
        maxfl.StreamingSimulation(small, small_model, maxfl.fedavg(), *arguments, **options)


def test_a_model_in_the_place_of_a_federation_is_told(small, small_model):
    with pytest.raises(maxfl.InputError, match="stands for the Federation"):
        maxfl.StreamingSimulation(small_model, small, maxfl.fedavg())
