"""What people read of methods and settings."""

from maxfl.report.names import label_of


def test_settings_that_differ_are_shown_even_if_they_are_0():
    assert label_of({"seed": 0}, ["seed"]) == "seed 0"
    settings = {"algorithm.name": "lossweighted", "algorithm.power": 0.0}
    assert label_of(settings, list(settings)) == "lossweighted, power 0.0"
    assert label_of(
        {"algorithm.name": "maxfl", "requirement.loss": None}, ["requirement.loss"]
    ) == ("MaxFL")


def test_own_code_is_called_as_its_function():
    settings = {"algorithm.name": "mymodule:mymethod", "algorithm.power": 2}
    assert label_of(settings, list(settings)) == "mymethod, power 2"
    shown = {"mymodule:mymethod", "other:mymethod", "maxfl"}
    assert label_of(settings, [], shown) == "mymodule:mymethod"
    assert label_of({"algorithm.name": "maxfl"}, [], shown) == "MaxFL"
