"""From names to functions: every mistake in words."""

import pytest

from maxfl.runs.plugins.resolve import call, load, resolve, signature
from maxfl.utils.errors import InputError
from support.own_modules import METHOD


def test_a_name_becomes_a_function_once(own_code):
    own_code(own_method=METHOD)
    function = resolve("own_method:lossweighted")
    assert function.__name__ == "lossweighted"
    assert load("own_method:lossweighted") is load("own_method:lossweighted")
    assert resolve("own_method:HParams._make")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("own_method:", "expected the names of a module and a function, as mymodule:mymethod"),
        (":lossweighted", "expected the names of a module"),
        ("own_method:a:b", "expected the names of a module"),
        ("own/method:f", "with dots instead of slashes"),
        ("own_method.py:f", "leave the .py out, as own_method:f"),
        (
            "own_method:lossweigthed",
            r"the module own_method \(own_method.py\) has no lossweigthed. Did you mean 'losswei",
        ),
        ("own_method:METHOD", "is no function but a Algorithm: name a function that returns the"),
        ("own_method:__doc__", "is no function but a NoneType: name a function$"),
    ],
)
def test_mistakes_are_named(own_code, target, words):
    own_code(own_method=METHOD)
    with pytest.raises(InputError, match=words):
        resolve(target)


def test_calls_may_import_what_lies_beside_and_fail_in_words(own_code):
    own_code(
        own_late="def f():\n    from own_beside import one\n    return one\n\n"
        "def g():\n    return {}['key']\n",
        own_beside="one = 1\n",
    )
    assert call(load("own_late:f")) == 1
    with pytest.raises(InputError, match=r"own_late:g failed: KeyError: 'key' \(own_late.py:6\)"):
        call(load("own_late:g"))


def test_a_function_without_a_signature_is_refused(own_code):
    own_code(own_built="f = type\n")
    with pytest.raises(InputError, match="own_built:f does not tell its parameters"):
        signature(load("own_built:f"))
