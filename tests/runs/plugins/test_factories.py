"""What own code makes is called with what it asks for, and checked."""

import numpy as np
import pytest

from maxfl.core import losses
from maxfl.core.requirements.requirement import custom
from maxfl.runs.plugins.factories import make_algorithm, make_data, make_model, make_rule
from maxfl.runs.plugins.resolve import resolve
from maxfl.utils.errors import InputError
from support.federations import CLASSES, FEATURES
from support.own_modules import DATA, METHOD, MODEL
from support.small import SMALL


def test_a_method_is_made_for_all_configurations(own_code):
    own_code(own_method=METHOD)
    method = make_algorithm("own_method:lossweighted", [{"power": 2}, {}, {"power": 0.5}])
    np.testing.assert_array_equal(method.hparams.power, [2, 1, 0.5])
    assert method.weight is resolve("own_method:weight")


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("lossweighted", [{"power": -1}], r"lossweighted failed: ValueError: a negative power \("),
        ("baked", [{"power": 1}, {"power": 2}], "makes other functions for other numbers"),
        ("idle", [{"power": 1}, {"power": 2}], "own_method:idle ignores `power`, so config"),
        ("nothing", [{}], "returned 3, a int; expected a maxfl.Algorithm"),
    ],
)
def test_methods_that_are_none(own_code, name, given, words):
    own_code(own_method=METHOD)
    with pytest.raises(InputError, match=words):
        make_algorithm(f"own_method:{name}", given)


def test_hparams_that_differ_in_shape_are_refused(own_code):
    own_code(
        own_ragged="import maxfl, numpy\n"
        "def f(n=1):\n    return maxfl.fedavg()._replace(hparams=numpy.ones(int(n)))\n"
    )
    with pytest.raises(InputError, match="hparams are not the same numbers each time"):
        make_algorithm("own_ragged:f", [{"n": 1}, {"n": 2}])


def test_numbers_that_are_ignored_but_the_same_are_let_be(own_code):
    own_code(own_method=METHOD)
    assert make_algorithm("own_method:idle", [{}, {"power": 1}]).name == "fedavg"


def test_a_rule_may_import_what_lies_beside_it_and_its_errors_say_where(own_code):
    own_code(
        own_rule="def lazy(federation, solo):\n    import own_far\n    return own_far.value\n"
        "def bad(federation, solo):\n    return 1 / 0\n"
        "def short(federation):\n    return 1\n",
        own_far="value = 3\n",
    )
    rule = make_rule("own_rule:lazy")
    assert rule(SMALL, None) == 3
    assert rule.__qualname__ == "lazy"
    assert rule is make_rule("own_rule:lazy"), "one program"
    with pytest.raises(InputError, match=r"own_rule:bad failed: Zero.* \(own_rule.py:5\)"):
        make_rule("own_rule:bad")(SMALL, None)
    with pytest.raises(InputError, match=r"own_rule:short takes \(federation\); expected a func"):
        custom(make_rule("own_rule:short"))


def test_a_model_gets_the_sizes_that_it_asks_for(own_code):
    own_code(own_model=MODEL)
    model = make_model("own_model:dense", SMALL, None, {"deeper": [7]})
    assert model is make_model("own_model:dense", SMALL, None, {"deeper": [7]}), "one program"
    focal = resolve("own_model:focal")
    assert make_model("own_model:with_loss", SMALL, focal, {}).loss is focal
    assert make_model("own_model:with_loss", SMALL, None, {}).loss is losses.cross_entropy
    assert make_model("own_model:of_data", SMALL, None, {}).loss is losses.cross_entropy
    assert (SMALL.train.x.shape[1], SMALL.classes) == (FEATURES, CLASSES)


@pytest.mark.parametrize(
    ("name", "loss", "words"),
    [
        ("dense", losses.squared_error, "model.loss is set, but own_model:dense has no parameter"),
        ("broken", None, r"own_model:broken failed: RuntimeError: out of ideas \(own_model.py:3"),
        ("number", None, "returned 3, a int; expected a maxfl.Model"),
    ],
)
def test_models_that_are_none(own_code, name, loss, words):
    own_code(own_model=MODEL)
    with pytest.raises(InputError, match=words):
        make_model(f"own_model:{name}", SMALL, loss, {})


def test_data_are_a_federation_or_samples(own_code):
    own_code(own_data=DATA)
    one = make_data("own_data:federation", {"clients": 3}, seed=1)
    assert one.clients == 3
    assert one.digest() != make_data("own_data:federation", {"clients": 3}, seed=2).digest()
    samples = make_data("own_data:dataset", {}, seed=0)
    assert samples.labels == ("0", "1", "2")
    with pytest.raises(InputError, match=r"names 1 labels, but y is int32.* up to 2"):
        make_data("own_data:dataset", {"names": True}, seed=0)
    with pytest.raises(InputError, match=r"returned \[1, 2\], a list; expected a maxfl.Federation"):
        make_data("own_data:nothing", {}, seed=0)
