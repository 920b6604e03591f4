"""What installed packages offer: short names, clashes, broken ones."""

import sys
from importlib.metadata import DistributionFinder, PathDistribution

import pytest

from maxfl.runs.configs.file import validate
from maxfl.runs.plugins import entry_points
from maxfl.runs.plugins.catalogue import catalogue
from maxfl.runs.plugins.entry_points import find_target, load_named, offered
from maxfl.runs.plugins.used import code_of
from maxfl.utils.errors import InputError
from support.own_modules import METHOD

POINTS = """
[maxfl.algorithms]
shortname = own_package:lossweighted
fedavg = own_package:lossweighted
twice = own_package:lossweighted
broken = own_package:no_such
gone = own_missing:f
"""


@pytest.fixture
def packages(own_code, monkeypatch):
    """Two packages that are found beside the installed ones."""
    folder = own_code(own_package=METHOD)
    texts = {"first": POINTS, "second": "[maxfl.algorithms]\ntwice = own_package:needy\n"}
    for name, text in texts.items():
        info = folder / f"{name}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(text)

    class Finder(DistributionFinder):
        def find_spec(self, *_):
            return None

        def find_distributions(self, context):
            return map(PathDistribution, folder.glob("*.dist-info")) if not context.name else ()

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    entry_points.offered.cache_clear()
    yield
    entry_points.offered.cache_clear()


pytestmark = pytest.mark.usefixtures("packages")


def test_short_names_are_methods():
    assert ("shortname", "own_package:lossweighted", "first 1.5") in offered("algorithm")
    assert offered("loss") == ()
    assert load_named("shortname", "algorithm").target == "own_package:lossweighted"
    config = validate({"algorithm": {"name": "shortname", "power": 2}}, "f")
    assert config.algorithm.hparams == {"power": 2}
    assert "own_package.py" in code_of([config]).digests
    with pytest.raises(InputError, match="shortname has no hyper-parameter `q`"):
        validate({"algorithm": {"name": "shortname", "q": 2}}, "f")


def test_built_in_names_stay_what_they_are():
    config = validate({"algorithm": {"name": "fedavg"}}, "f")
    assert code_of([config]).digests == {}
    assert validate({"algorithm": {"name": "fedavg", "by_size": 1}}, "f")


def test_a_name_of_several_packages_is_refused():
    words = r"several packages offer twice: choose own_package:lossweighted \(first 1.5\) or own_"
    with pytest.raises(InputError, match=words):
        find_target("twice", "algorithm")
    with pytest.raises(InputError, match="neither module:function nor offered"):
        load_named("nobody", "algorithm")


def test_all_are_listed_the_broken_ones_with_their_error():
    listed = [one for one in catalogue()["algorithm.name"] if one.origin]
    errors = {(one.name, one.origin): one.error for one in listed}
    assert errors["shortname", "first 1.5"] == ""
    assert "has no no_such" in errors["broken", "first 1.5"]
    assert "there is no module own_missing" in errors["gone", "first 1.5"]
    assert "taken (built in); write own_package:loss" in errors["fedavg", "first 1.5"]
    assert (
        "taken (first 1.5 and second 1.5); write own_package:needy" in errors["twice", "second 1.5"]
    )
