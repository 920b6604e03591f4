"""Models by name: what fits the data, and what is said where it does not."""

import jax
import numpy as np
import pytest

import maxfl
from maxfl.core import losses
from maxfl.core.checks.model import check_model
from maxfl.models.registry import MODELS, fit_model

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (4, 8, 8), np.uint8)
TOKENS = RNG.integers(0, 6, (4, 5))
TOKENS[0, 0] = 6
CLASSES = np.array([0, 1, 2, 1])


def federation(x, y):
    return maxfl.Federation.from_clients([(x, y)], [(x, y)])


@pytest.mark.parametrize(
    ("name", "x", "y", "settings", "outputs", "loss"),
    [
        ("logistic", IMAGES, CLASSES, {}, (3,), losses.cross_entropy),
        ("mlp", IMAGES, RNG.normal(size=4), {"hidden": (3,)}, (1,), losses.squared_error),
        ("mlp", IMAGES, RNG.normal(size=(4, 2)), {"hidden": (3,)}, (2,), losses.squared_error),
        ("cnn", IMAGES, CLASSES, {"channels": (2,)}, (3,), losses.cross_entropy),
        ("resnet", IMAGES[..., None], CLASSES, {"width": 8}, (3,), losses.cross_entropy),
        ("lstm", TOKENS, CLASSES, {"hidden": (3,)}, (3,), losses.cross_entropy),
        ("lstm", TOKENS, TOKENS + 1, {"hidden": (3,)}, (5, 8), losses.next_token()),
        ("transformer", TOKENS, TOKENS, {"vocabulary": 9}, (5, 9), losses.next_token()),
        ("transformer", TOKENS, RNG.normal(size=4), {}, (1,), losses.squared_error),
    ],
)
def test_models_fit_the_data(name, x, y, settings, outputs, loss):
    fed = federation(x, y)
    model = fit_model(name, fed, **settings)
    check_model(model, fed)
    assert model.loss == loss
    params = jax.eval_shape(model.init, jax.random.key(0))
    assert jax.eval_shape(model.outputs, params, fed.train.x).shape == (4, *outputs)


@pytest.mark.parametrize(
    ("name", "x", "y", "options", "words"),
    [
        ("cnn", RNG.normal(size=(4, 64)), CLASSES, {}, r"cnn takes images.*shape \[64\]"),
        ("cnn", RNG.normal(size=(4, 3, 8, 8)), CLASSES, {}, "channels first"),
        ("lstm", RNG.normal(size=(4, 5)), CLASSES, {}, "lstm takes sequences of tokens"),
        ("lstm", IMAGES, CLASSES, {}, "lstm takes sequences of tokens"),
        ("lstm", TOKENS - 1, CLASSES, {}, "the smallest is -1"),
        ("lstm", TOKENS, CLASSES, {"vocabulary": 6}, "there is token 6: give 7"),
        ("lstm", TOKENS, CLASSES, {"loss": losses.next_token()}, "the tokens after each of x"),
        ("mlp", TOKENS, TOKENS, {"hidden": ()}, "multi-label"),
        ("mlp", TOKENS, TOKENS, {"hidden": (), "loss": losses.next_token()}, "model of tokens"),
        ("logistic", TOKENS, TOKENS, {"loss": losses.cross_entropy}, "one integer per sample"),
        ("logistic", TOKENS, RNG.normal(size=(4, 2, 2)), {}, "a number, or a row of them"),
        ("gnn", TOKENS, CLASSES, {}, "expected one of mlp, logistic"),
    ],
)
def test_what_does_not_fit_is_said(name, x, y, options, words):
    with pytest.raises(maxfl.InputError, match=words):
        fit_model(name, federation(x, y), **options)


def test_all_public():
    assert all(getattr(maxfl, name) is entry.factory for name, entry in MODELS.items())
