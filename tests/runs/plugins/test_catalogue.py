"""The catalogue has everything that a file can name."""

from typing import get_args

import pytest

from maxfl.algorithms import ALGORITHMS
from maxfl.runs.configs.data import DataConfig
from maxfl.runs.configs.requirement import RequirementConfig
from maxfl.runs.plugins.catalogue import KINDS, catalogue, look_up
from maxfl.utils.errors import InputError
from support.own_modules import METHOD


def test_everything_is_listed_with_a_line():
    listed = catalogue()
    assert list(listed) == list(KINDS)
    names = {setting: [one.name for one in found if not one.origin]
             for setting, found in listed.items()}  # fmt: skip
    assert names["algorithm.name"] == list(ALGORITHMS)
    assert names["data.source"] == [*get_args(DataConfig.model_fields["source"].annotation)]
    kinds = get_args(RequirementConfig.model_fields["kind"].annotation)
    assert names["requirement.kind"] == [*kinds]
    for found in listed.values():
        for one in found:
            assert one.what, one.name
            assert all(p.meaning for p in one.parameters if found is listed["algorithm.name"])


def test_one_is_looked_up_by_name(own_code):
    own_code(own_method=METHOD)
    (own,) = look_up("own_method:lossweighted")
    assert own.origin == "own_method.py"
    assert own.text.startswith("Return a method in which clients count")
    (known,) = look_up("ditto")
    assert "Ditto" in known.text
    assert look_up("nobody") == []
    with pytest.raises(InputError, match="no module own_other"):
        look_up("own_other:f")
