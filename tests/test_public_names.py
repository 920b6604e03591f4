"""The public names are loaded when they are asked for."""

import subprocess
import sys

import pytest

import maxfl


def test_the_public_names_are_loaded_when_asked_for():
    code = (
        "import sys, maxfl, maxfl.core.appeal, maxfl.utils.errors; assert 'jax' not in sys.modules;"
        "import importlib.util as u;"
        "u.find_spec('flwr') and __import__('maxfl.flower.appeal_mod');"
        "assert 'jax' not in sys.modules and 'matplotlib' not in sys.modules;"
        "maxfl.run, maxfl.simulate; assert 'matplotlib' not in sys.modules;"
        "assert not hasattr(maxfl, 'nothing')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("old", "new"),
    [("adversary", "attacks"), ("robust", "aggregators"), ("optimisers", "server_optimizers")],
)
def test_an_old_name_leads_to_the_new_one(old, new):
    with pytest.raises(AttributeError, match=f"maxfl.{old} is called maxfl.{new} now"):
        getattr(maxfl, old)
    assert hasattr(maxfl, new)
