"""Models that take their sizes from the federation they are trained on."""

import jax
import numpy as np
import pytest

import maxfl
from maxfl.core import losses
from support.federations import CLASSES, FEATURES
from support.small import MODEL, SMALL, TRAINING

RNG = np.random.default_rng(0)
LABELS = np.array([0, 1, 2, 1])


def federation(x, y=LABELS):
    return maxfl.Federation.from_clients([(x, y)], [(x, y)])


IMAGES = federation(RNG.integers(0, 256, (4, 8, 8), np.uint8))
TOKENS = federation(np.arange(20).reshape(4, 5))


def test_sizes_are_those_of_the_federation():
    for unsized in (maxfl.mlp((6, 5), dropout=0.0), maxfl.mlp(hidden=[6, 5], dropout=0.0)):
        assert unsized.for_federation(SMALL) is MODEL, "one model, one compiled program"
    assert MODEL.for_federation(SMALL) is MODEL
    paper = maxfl.mlp().for_federation(SMALL)
    assert paper is maxfl.mlp(FEATURES, (64, 30), CLASSES)
    simulation = maxfl.Simulation(SMALL, maxfl.mlp([6, 5], dropout=0), maxfl.fedavg(), TRAINING)
    assert simulation.session.experiment.model is MODEL


@pytest.mark.parametrize(
    ("unsized", "data", "sized"),
    [
        (maxfl.logistic(), SMALL, maxfl.logistic(FEATURES, CLASSES)),
        (maxfl.logistic(), IMAGES, maxfl.logistic(64, 3)),
        (maxfl.cnn(channels=(2,)), IMAGES, maxfl.cnn((8, 8), 3, channels=(2,))),
        (maxfl.resnet(width=8), IMAGES, maxfl.resnet((8, 8), 3, width=8)),
        (maxfl.lstm(hidden=(3,)), TOKENS, maxfl.lstm(20, 3, hidden=(3,))),
        (maxfl.transformer(width=8), TOKENS, maxfl.transformer(20, 5, 3, width=8)),
    ],
    ids=lambda thing: thing.name if isinstance(thing, maxfl.Model) else "",
)
def test_every_model_of_the_zoo_takes_them(unsized, data, sized):
    assert unsized.for_federation(data) is sized
    assert sized.name
    assert "sizes of the federation" in repr(unsized)


def test_the_loss_goes_with_the_labels_unless_it_is_named():
    prices = federation(RNG.normal(size=(4, 3)), RNG.normal(size=4))
    assert maxfl.mlp((2,)).for_federation(prices).loss is losses.squared_error
    named = maxfl.mlp((2,), loss=losses.absolute_error)
    assert named.for_federation(prices).loss is losses.absolute_error
    assert maxfl.mlp(3, (2,), 1).loss is losses.cross_entropy
    sentences = federation(np.arange(20).reshape(4, 5), np.arange(20).reshape(4, 5))
    assert maxfl.lstm().for_federation(sentences) is maxfl.lstm(20)


def test_changes_wait_for_the_sizes():
    unsized = maxfl.with_precision(maxfl.logistic(), "bfloat16")
    assert unsized.for_federation(SMALL) is maxfl.with_precision(
        maxfl.logistic(FEATURES, CLASSES), "bfloat16"
    )
    fast = maxfl.fast_convolutions(maxfl.cnn(channels=(2,))).for_federation(IMAGES)
    assert fast == maxfl.fast_convolutions(maxfl.cnn((8, 8), 3, channels=(2,)))
    assert maxfl.with_precision(unsized, "platform") is unsized


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: maxfl.mlp(4, (3,)), "mlp has inputs but not classes: give all of them, or none"),
        (lambda: maxfl.mlp(hidden=(3,), classes=2), "mlp has classes but not inputs"),
        (lambda: maxfl.mlp(64), "mlp has inputs but not classes"),
        (lambda: maxfl.mlp("64"), "hidden = '64': expected the units of each hidden layer"),
        (lambda: maxfl.mlp((64, 30), (3,)), "mlp has inputs but not classes"),
        (lambda: maxfl.mlp((64, 0)), "model.hidden = 0"),
        (lambda: maxfl.mlp((64,), dropout=2), "dropout"),
        (lambda: maxfl.logistic(4), "logistic has inputs but not classes"),
        (lambda: maxfl.cnn((8, 8)), "cnn has shape but not classes"),
        (lambda: maxfl.cnn(kernel=0), "kernel = 0"),
        (lambda: maxfl.resnet(classes=3), "resnet has classes but not shape"),
        (lambda: maxfl.lstm(classes=3), "vocabulary = None"),
        (lambda: maxfl.transformer(20), "length = None"),
        (lambda: maxfl.mlp((3,)).init(jax.random.key(0)), "has no sizes yet.*for_federation"),
        (lambda: maxfl.mlp((3,)).apply({}, np.zeros(3)), "has no sizes yet"),
        (lambda: maxfl.count_parameters(maxfl.cnn()), "has no sizes yet"),
        (lambda: maxfl.lora(maxfl.mlp((3,)), 2, params={}), "chooses none of the model"),
        (lambda: maxfl.cnn().for_federation(SMALL), "cnn takes images"),
        (lambda: maxfl.Simulation(None, maxfl.mlp((3,)), maxfl.fedavg()), "the NoneType None"),
    ],
)
def test_what_is_wrong_is_said(make, words):
    with pytest.raises(maxfl.InputError, match=words):
        make()
