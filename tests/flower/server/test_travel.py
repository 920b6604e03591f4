"""What of a model travels."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.flower import MaxFL
from maxfl.flower.server.travel import first_control, split_control, with_control
from maxfl.utils.errors import InputError
from support.flower_nodes import START, Nodes, make_app, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def test_only_trained_arrays_travel():
    """The nodes' messages and replies have no others, and the model in the end has them all."""
    seen = []
    app = make_app(lambda message, _: seen.append(list(message.content["arrays"])) or 1.0, 2.0)
    model = START | {"base": np.ones((50, 50), np.float32)}
    with pytest.raises(InputError, match="trained_arrays has 'c', but the model's arrays are"):
        train(MaxFL(trained_arrays=["c"]), Nodes(app, app), start=model)
    strategy = MaxFL(temperature=1.0, trained_arrays=["w", "b"])
    found = train(strategy, Nodes(app, app), rounds=2, start=model)[-1][0]
    assert all(names == ["w", "b"] for names in seen)
    assert list(found) == ["w", "b", "base"]
    np.testing.assert_array_equal(found["base"], model["base"])
    assert not np.array_equal(found["w"], START["w"])


def test_a_control_variate_is_of_what_gradients_train():
    model = START | {"count": np.array([3]), "half": np.ones(2, np.float16)}
    control = first_control(model, ["b"])
    assert {name: array.dtype.name for name, array in control.items()} == {
        "w": "float32", "half": "float32"
    }  # fmt: skip
    found, apart = split_control(with_control(model, control))
    assert list(found) == list(model)
    assert list(apart) == ["w", "half"]
