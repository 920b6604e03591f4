"""The table [model]: settings of each of the zoo, with the defaults of its factory."""

import inspect

import numpy as np
import pytest

import maxfl
from maxfl.core import losses
from maxfl.models.registry import MODELS
from maxfl.runs.build import build_model
from maxfl.runs.configs.file import override_all, unused, validate
from maxfl.runs.configs.model import MODEL_CONFIGS, MlpConfig, model_settings
from maxfl.runs.configs.run import RunConfig
from maxfl.utils.errors import InputError


def test_defaults_are_those_of_the_factories():
    assert list(MODEL_CONFIGS) == list(MODELS)
    for name, config in MODEL_CONFIGS.items():
        assert config().name == name
        parameters = inspect.signature(MODELS[name].factory).parameters
        for key, value in model_settings(config()).items():
            default = parameters[key].default
            if default is not inspect.Parameter.empty:
                assert value == default, (name, key)
    assert RunConfig().model == MlpConfig()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"name": "cn"}, r"model\.name: expected one of mlp, .* \(given: 'cn'\).*'cnn'"),
        ({"name": [1]}, r"model\.name: expected one of mlp"),
        ({"name": "resnet", "hidden": [3]}, "model.hidden: unknown key of resnet; known here are"),
        ({"name": "cnn", "kernal": 3}, r"Did you mean 'kernel'\?"),
        ({"name": "lstm", "hidden": []}, "model.hidden: .*at least 1"),
        ({"loss": "hinge"}, "model.loss: .*'cross-entropy'"),
    ],
)
def test_mistakes_are_named(table, words):
    with pytest.raises(InputError, match=words):
        validate({"model": table}, "file.toml")


def test_another_name_leaves_the_settings_of_the_one_before_behind():
    raw = {"model": {"hidden": [4], "dropout": 0.1, "loss": "huber"}}
    assert override_all(raw, {"model.name": "resnet"}) == {
        "model": {"name": "resnet", "loss": "huber"}
    }
    assert override_all(raw, {"model.name": "mlp"})["model"]["hidden"] == [4]


def test_numbers_of_another_loss_are_pointed_at():
    table = {"loss": "squared-error", "huber_delta": 2.0, "padding": 1}
    notes = unused(validate({"model": table}, "file.toml"))
    assert [note.split()[0] for note in notes] == ["model.huber_delta", "model.padding"]
    assert unused(validate({"model": {"padding": 1}}, "file.toml")) == []


@pytest.mark.parametrize(
    ("table", "loss"),
    [
        ({}, losses.squared_error),
        ({"loss": "absolute-error"}, losses.absolute_error),
        ({"loss": "multi-label"}, losses.multi_label),
        ({"loss": "huber", "huber_delta": 2.0}, losses.huber(2.0)),
    ],
)
def test_losses_by_name(table, loss):
    pair = np.ones((3, 4)), np.ones((3, 2))
    federation = maxfl.Federation.from_clients([pair], [pair])
    config = validate({"model": {"name": "logistic", **table}}, "file.toml").model
    assert build_model(config, federation) is maxfl.logistic(4, 2, loss)


def test_padding_goes_to_the_loss_of_next_tokens():
    tokens = np.array([[1, 2, 0]])
    federation = maxfl.Federation.from_clients([(tokens, tokens)], [(tokens, tokens)])
    for loss in ("auto", "next-token"):
        table = {"name": "lstm", "hidden": [2], "loss": loss, "padding": 2}
        model = build_model(validate({"model": table}, "file.toml").model, federation)
        assert model is maxfl.lstm(3, hidden=(2,), loss=losses.next_token(2))
