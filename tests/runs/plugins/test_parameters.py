"""Parameters by signature and docstring."""

import pytest

from maxfl.runs.plugins.parameters import (
    REQUIRED,
    arguments,
    check_given,
    check_hparams,
    check_plain,
    hashable,
    one_line,
    own_parameters,
    parameters_of,
)
from maxfl.runs.plugins.resolve import load
from maxfl.utils.errors import InputError
from support.own_modules import METHOD


def test_parameters_have_defaults_and_meanings(own_code):
    own_code(own_method=METHOD)
    (power,) = own_parameters(load("own_method:lossweighted"))
    assert power == ("power", 1.0, "p; 0 is FedAvg")
    assert power.shown == "power = 1.0"
    (needed,) = own_parameters(load("own_method:needy"))
    assert needed.default is REQUIRED
    assert needed.shown == "power"
    function = load("own_method:lossweighted").function
    assert one_line(function) == "A method in which clients count by a power of their loss."


def test_parameters_without_names_are_left_out_or_refused(own_code):
    def many(*args, seed, width=(3, 4), **more): ...

    assert [p.shown for p in parameters_of(many, filled=("seed",))] == ["width = [3, 4]"]
    own_code(own_slash="def f(x, /): ...\n")
    with pytest.raises(InputError, match="own_slash:f takes `x` by position only"):
        own_parameters(load("own_slash:f"))


def test_the_section_of_arguments_ends_where_it_ends():
    text = "Do.\n\nArgs:\n    a: One\n        more: or less.\n    b: Two.\n\nReturns:\n    c: No."
    assert arguments(text) == {"a": "One", "more": "or less", "b": "Two"}
    assert arguments("Do.") == {}


def test_settings_are_checked_by_signature(own_code):
    own_code(own_method=METHOD)
    known = own_parameters(load("own_method:wordy"))
    with pytest.raises(InputError, match=r"m has no option `powr`; it has power, mode. Did you"):
        check_given("m", known, {"powr": 1}, "option")
    with pytest.raises(InputError, match="m has no option `x`; it has none"):
        check_given("m", [], {"x": 1}, "option")
    with pytest.raises(InputError, match="`mode` of m has the default 'fast', which is not a num"):
        check_hparams("m", known, {"power": 2})
    with pytest.raises(InputError, match="`power` = 'big' is not a number"):
        check_hparams("m", known, {"power": "big"})
    with pytest.raises(InputError, match="no default for its hyper-parameter `power`: give"):
        check_hparams("m", own_parameters(load("own_method:needy")), {})


def test_plain_values():
    check_plain({"a": [1, [2.0, "x"]], "b": True})
    with pytest.raises(InputError, match=r"`a` = {'b': 1}: expected a number, a word"):
        check_plain({"a": {"b": 1}})
    assert hashable([1, [2, "x"]]) == (1, (2, "x"))
