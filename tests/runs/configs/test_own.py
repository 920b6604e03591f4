"""Own code in a file: checked before anything runs, swept in one program, and built."""

import warnings

import numpy as np
import pytest

from maxfl.core.federation_files import open_federation
from maxfl.runs.build import build, build_federation, build_model, group, write_data
from maxfl.runs.configs.file import override_all, validate
from maxfl.runs.grid import expand
from maxfl.runs.plugins.resolve import resolve
from maxfl.utils.errors import InputError
from support.own_modules import DATA, METHOD, MODEL
from support.small import SMALL


@pytest.fixture(autouse=True)
def modules(own_code):
    return own_code(own_method=METHOD, own_model=MODEL, own_data=DATA)


def test_own_names_are_written_without_a_warning():
    settings = {
        "algorithm": {"name": "own_method:lossweighted"},
        "model": {"loss": "own_model:focal"},
        "data": {"source": "own_data:federation"},
    }
    own_model = {"model": {"name": "own_model:with_loss", "loss": "own_model:focal"}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written = [validate(raw, "f").as_json() for raw in (settings, settings | own_model)]
    assert written[0]["model"]["loss"] == written[1]["model"]["loss"] == "own_model:focal"
    assert written[0]["data"]["source"] == "own_data:federation"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"algorithm": {"name": "own_method:lossweigted"}},
            "algorithm.name: the module own_method",
        ),
        ({"algorithm": {"name": "no_such:f"}}, "algorithm.name: there is no module no_such"),
        (
            {"algorithm": {"name": "own_method:lossweighted", "powr": 1}},
            "algorithm: .* has no hyper-parameter `powr`; it has power. Did you mean 'power'?",
        ),
        ({"algorithm": {"name": "own_method:lossweighted", "power": "x"}}, "'x' is not a number"),
        ({"algorithm": {"name": "own_method:needy"}}, "no default for its hyper-parameter `power`"),
        ({"algorithm": {"name": "own_method:wordy"}}, "`mode` of .* is not a number"),
        ({"algorithm": {"name": 3}}, "algorithm.name: Input should be 'fedavg'"),
        ({"model": {"name": "own_model:dens"}}, "has no dens. Did you mean 'dense'"),
        (
            {"model": {"name": "own_model:dense", "widht": 3}},
            "model: own_model:dense has no setting `widht`; it has width, deeper. Did you mean",
        ),
        ({"model": {"name": "own_model:dense", "width": {"a": 1}}}, "expected a number, a word"),
        ({"model": {"name": "own_model:dense", "precision": "half"}}, "model.precision: Input"),
        (
            {"model": {"name": "own_model:taken"}},
            "`padding` of own_model:taken has the name of a s",
        ),
        ({"model": {"name": "dense"}}, "model.name: expected one of mlp"),
        ({"model": {"loss": "own_model:focl"}}, "model.loss: the module own_model .* has no focl"),
        ({"model": {"loss": "focal"}}, "model.loss: Input should be 'auto'"),
        ({"data": {"source": "own_data:no"}}, "data.source: the module own_data .* has no no"),
        ({"data": {"options": {"clients": 3}}}, "`options` are for a source of your own"),
        (
            {"data": {"source": "own_data:federation", "options": {"client": 3}}},
            "data: own_data:federation has no option `client`; it has clients, features. Did",
        ),
        (
            {"data": {"source": "own_data:federation", "options": {"seed": 3}}},
            "`options.seed`: the seed of the data is data.seed",
        ),
    ],
)
def test_mistakes_are_named(settings, words):
    with pytest.raises(InputError, match=words):
        validate(settings, "file.toml")


def test_numbers_of_an_own_method_are_swept_in_one_program():
    raw = {
        "data": {"source": "own_data:federation", "seed": 0},
        "model": {"name": "own_model:dense", "width": 3},
        "algorithm": {"name": "own_method:lossweighted"},
        "training": {"cohort": 2},
        "sweep": {"algorithm": {"power": [0, 1.5]}, "seed": [0, 1]},
    }
    (members,) = group(expand(raw, "s").configs)
    described = build(members.configs).describe()
    assert described["algorithm"] == {"name": "lossweighted", "power": [0, 0, 1.5, 1.5]}
    raw["algorithm"]["name"] = "own_method:needy"
    (members,) = group(expand(raw, "s").configs)
    assert build(members.configs).describe()["algorithm"]["power"] == [0, 0, 1.5, 1.5]


def test_another_name_leaves_the_settings_of_the_one_before_behind():
    raw = {
        "algorithm": {"name": "own_method:lossweighted", "power": 2},
        "model": {"name": "own_model:dense", "width": 3, "precision": "float32"},
    }
    new = override_all(raw, {"algorithm.name": "maxfl", "model.name": "mlp"})
    assert new == {"algorithm": {"name": "maxfl"}, "model": {"name": "mlp", "precision": "float32"}}
    back = override_all(new, {"algorithm.name": "own_method:lossweighted", "algorithm.power": 3})
    assert validate(back, "f").algorithm.hparams == {"power": 3}
    wrong = override_all(raw, {"algorithm.name": "own_method:no_such"})
    assert wrong["algorithm"]["power"] == 2, "left for the validation to explain"


def test_an_own_loss_of_classes_has_as_many_outputs_and_accuracy():
    config = validate({"model": {"loss": "own_model:focal", "hidden": [3]}}, "f").model
    model = build_model(config, SMALL)
    assert model.loss is resolve("own_model:focal")
    assert [info.name for info in model.metric_infos] == ["accuracy"]


def test_own_data_are_split_over_clients_or_whole(tmp_path):
    def data(source, **settings):
        return validate({"data": {"source": f"own_data:{source}", **settings}, "seed": 4}, "f")

    whole = data("federation", options={"clients": 4})
    assert build_federation(whole).clients == 4
    assert build_federation(whole) is build_federation(whole)
    assert build_federation(data("dataset", unseen=2)).clients == 5
    drawn = data("dataset", partition="iid", clients=3, unseen=1, samples=6)
    assert build_federation(drawn).seen == 3
    with pytest.raises(InputError, match=r"a whole federation, .*: leave data.unseen, data.pa"):
        build_federation(data("federation", unseen=2, partition="iid"))
    with pytest.raises(InputError, match="does not say whose each sample is"):
        build_federation(data("dataset", options={"owned": False}))
    for number, config in enumerate((whole, drawn)):
        written = open_federation(write_data(config, tmp_path / str(number), lambda *_: None))
        made = build_federation(config)
        np.testing.assert_array_equal(written.train.x, made.train.x)
        np.testing.assert_array_equal(written.test.y, made.test.y)
        assert written.seen == made.seen
