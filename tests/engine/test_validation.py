"""Mistakes in an experiment get a clear error before any training."""

import warnings
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.engine.experiment import make_experiment

CLIENT = np.zeros((3, 2), np.float32), np.array([0, 1, 1])


def simulation(model=None, algorithm=None, **training):
    fed = maxfl.Federation.from_clients([CLIENT] * 4, [CLIENT] * 4, unseen=1)
    names = ("seed", "participation", "requirement", "max_parallel", "devices")
    options = {name: training.pop(name) for name in names if name in training}
    training = {"cohort": 2, **training}
    model = model or maxfl.mlp(2, (3,), 2)
    return maxfl.Simulation(
        fed, model, algorithm or maxfl.fedavg(), maxfl.Training(**training), **options
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cohort": 4}, "cohort = 4, but the federation has only 3 seen clients"),
        ({"rounds": 0}, "training.rounds = 0: expected one whole number at least 1"),
        ({"rounds": 6.0}, "training.rounds = 6.0: expected one whole number"),
        ({"local_steps": [6, 7.5]}, "training.local_steps = 7.5: expected a whole number"),
        ({"local_lr": -0.1}, "training.local_lr = -0.1: expected a finite number above 0"),
        ({"local_lr": float("nan")}, "training.local_lr = nan"),
        ({"server_lr": [1.0, 0.0]}, "training.server_lr = 0"),
        ({"local_lr": "fast"}, "training.local_lr = 'fast' is not a number"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": [0, 1], "local_lr": [0.1] * 3}, "of one length"),
        ({"seed": [[0, 1]]}, "one-dimensional"),
        ({"model": maxfl.mlp(3, (3,), 2)}, "can't be applied to features of shape .2."),
        ({"model": maxfl.mlp(2, (3,), 1)}, "one logit per class"),
        ({"model": maxfl.Model(lambda _: jnp.zeros(2, int), lambda w, x, _=None: x + w)}, "float"),
        ({"model": maxfl.Model(lambda _: jnp.zeros(2), lambda w, x: x * w)}, "can't be applied"),
        ({"max_parallel": 0}, "max_parallel = 0"),
        ({"algorithm": "fedavg"}, "the str 'fedavg' stands for the Algorithm"),
        ({"requirement": 3.0}, "the float 3.0 stands for the Requirement: expected maxfl.solo"),
        ({"participation": "opt-out"}, "stands for the Participation"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused(options, words):
    with pytest.raises(maxfl.InputError, match=words):
        simulation(**options)


def test_a_table_in_the_place_of_a_federation_is_told():
    with pytest.raises(maxfl.InputError, match=r"the dict .* Federation: .*from_dataframe\(frame"):
        maxfl.Simulation({"age": [1, 2]}, maxfl.mlp(2, (3,), 2), maxfl.fedavg(), maxfl.Training(1))


def test_a_model_that_starts_with_nan_is_refused():
    model = maxfl.Model(lambda _: jnp.full(2, jnp.nan), lambda w, x, _=None: x * w)
    with pytest.raises(maxfl.InputError, match="parameters that are NaN"):
        simulation(model).start()


def test_plain_tuples_are_arrays_too():
    assert simulation(seed=(0, 1), local_lr=(0.1, 0.2)).session.configurations == 2


def test_bad_numbers_of_methods_are_refused():
    with pytest.raises(maxfl.InputError, match="is not a number"):
        maxfl.maxfl(temperature=10**400)
    with pytest.raises(maxfl.InputError, match="temperature = 0: expected a finite number above 0"):
        maxfl.maxfl(temperature=0)
    with pytest.raises(maxfl.InputError, match="epsilon"):
        maxfl.maxfl(epsilon=-1)


def logits(x):
    return jnp.zeros((len(x), 3))


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (lambda x: logits(x).astype(jnp.int32), "outputs of type int32; expected floats"),
        (lambda x: logits(x) * 1j, "outputs of type complex64; expected floats"),
        (lambda x: None, "apply returns NoneType; expected an array"),  # noqa: ARG005
        (lambda x: (logits(x), 1), "apply returns tuple; expected an array"),
        (lambda x: logits(x)[:1], r"outputs of shape \[1, 3\] for 2 samples"),
        (lambda x: logits(x)[:, :1], r"outputs of shape \[2, 1\] for 2 samples"),
        (lambda x: logits(x).sum(1), r"outputs of shape \[2\] for 2 samples"),
    ],
)
def test_models_with_other_outputs_are_refused(outputs, words):
    model = maxfl.Model(lambda key: (), lambda params, x, key=None: outputs(x))  # noqa: ARG005
    with pytest.raises(maxfl.InputError, match=words):
        simulation(model)


@pytest.mark.parametrize("devices", [[], 5, ["cpu"]])
def test_no_devices_are_refused(devices):
    with pytest.raises(maxfl.InputError, match=r"devices = .* expected some of JAX's"):
        simulation(devices=devices)


def test_slow_convolutions_are_told_of_once_and_for_all():
    def apply(w, x, key=None):  # noqa: ARG001
        images = x.reshape(len(x), 1, 1, 2)
        return jax.lax.conv(images, w, (1, 1), "VALID").reshape(len(x), -1)

    model = maxfl.Model(lambda key: jax.random.normal(key, (3, 1, 1, 2)), apply)
    with pytest.warns(maxfl.SpeedWarning, match=r"maxfl.fast_convolutions\(model\)"):
        simulation(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulation(maxfl.fast_convolutions(model))


class Power(NamedTuple):
    """A weight that is an object."""

    power: int

    def __call__(self, _hparams, _server, client):
        return client.loss**self.power


def own_source(algorithm):
    """Return the digest of a method's own code."""
    fed = maxfl.Federation.from_clients([CLIENT] * 4, [CLIENT] * 4)
    return make_experiment(fed, None, algorithm).settings()["code"]["algorithm"]


def test_a_method_of_ones_own_is_known_by_its_source():
    def weight(_hparams, _server, client):
        return client.loss

    def other_weight(_hparams, _server, client):
        return client.loss**2

    described = [
        simulation(algorithm=maxfl.fedavg()._replace(weight=function)).describe()
        for function in (weight, weight, other_weight)
    ]
    one, same, other = (entry["code"]["algorithm"] for entry in described)
    assert one == same != other
    assert "code" not in simulation().describe(), "the package has a version"
    partials = [
        maxfl.fedavg()._replace(weight=partial(function, power=power))
        for function, power in ((weight, 1), (weight, 1), (weight, 2), (other_weight, 1))
    ]
    objects = [maxfl.fedavg()._replace(weight=Power(number)) for number in (1, 1, 2)]
    known = [own_source(algorithm) for algorithm in (*partials, *objects)]
    assert (known[0], known[4]) == (known[1], known[5])
    assert len({one, *known}) == 6
    typed = {}
    exec("def weight(hparams, server, client): return client.loss", typed)
    unseen = maxfl.fedavg()._replace(weight=typed["weight"])
    assert "code" not in simulation(algorithm=unseen).describe()
