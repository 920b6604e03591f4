"""A model and what it is trained on; products in another precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.federation import InputScaling
from maxfl.core.model import (
    CompiledScaling,
    Model,
    Variables,
    compiled_scaling,
    count_parameters,
    scale_inputs,
)
from support.federations import CLASSES, FEATURES
from support.small import MODEL, train


def test_metrics_go_with_the_loss():
    names = {
        maxfl.losses.cross_entropy: ["accuracy"],
        maxfl.losses.multi_label: ["accuracy"],
        maxfl.losses.squared_error: ["mae", "rmse"],
        maxfl.losses.huber(2.0): ["mae", "rmse"],
        maxfl.losses.next_token(): ["perplexity", "accuracy"],
        jnp.subtract: ["loss"],
    }
    for loss, expected in names.items():
        model = Model(MODEL.init, MODEL.apply, loss=loss)
        assert [metric.name for metric in model.metric_infos] == expected
    assert not model.metric_infos[0].higher_is_better


def test_parameters_are_counted():
    assert sum(count_parameters(MODEL)) == FEATURES * 6 + 6 + 6 * 5 + 5 + 5 * CLASSES + CLASSES
    model = Model(
        lambda key: Variables(jax.random.normal(key, (2, 3)), jnp.zeros(4)), MODEL.apply,
        frozen={"base": np.zeros((5, 6)), "scale": 2.0},
    )  # fmt: skip
    assert count_parameters(model) == (6, 4, 31)


def test_equal_parts_make_equal_models():
    again = Model(MODEL.init, MODEL.apply)
    assert again == MODEL
    assert hash(again) == hash(MODEL)
    others = (
        Model(MODEL.init, MODEL.apply, loss=maxfl.losses.huber()),
        Model(MODEL.init, MODEL.apply, metrics={"hits": maxfl.metrics.accuracy}),
        Model(MODEL.init, MODEL.apply, frozen=np.zeros(2)),
    )
    assert len({MODEL, *others}) == 4
    assert Model(MODEL.init, MODEL.apply, loss=maxfl.losses.huber()) == others[0]


@pytest.mark.parametrize(
    ("metrics", "what"),
    [
        ({}, "leave it out"),
        ([], "leave it out"),
        ({"my score": maxfl.metrics.accuracy}, "becomes a column"),
        ({"score": lambda outputs, y: y}, "higher_is_better"),  # noqa: ARG005
        ({"loss": maxfl.metrics.absolute_error}, "is not the loss"),
        (("mae",), "leave it out"),
    ],
)
def test_bad_metrics_are_refused(metrics, what):
    with pytest.raises(maxfl.InputError, match=what):
        Model(MODEL.init, MODEL.apply, metrics=metrics)


def test_state_stays_in_full_precision():
    def apply(variables, x, key=None):  # noqa: ARG001
        return x @ variables.params, variables.state + x.mean()

    low = maxfl.with_precision(Model(lambda _: (), apply), "bfloat16")
    variables = maxfl.Variables(jnp.full((1, 2), THIRD), jnp.full(1, THIRD))
    outputs, state = low.training_outputs(variables, jnp.zeros((3, 1)), jax.random.key(0))
    assert outputs.dtype == state.dtype == jnp.float32
    np.testing.assert_array_equal(state, [THIRD])


THIRD = np.float32(1 / 3)
"""Rounded to bfloat16 it is 0.333984375, the nearest number with 8 bits."""


def linear(seen=None):
    """Return a model of one weight, which notes the types that it is given."""

    def apply(w, x, key=None):  # noqa: ARG001
        if seen is not None:
            seen.append((w.dtype, x.dtype))
        return x @ w

    return Model(lambda key: jnp.full((1, 2), THIRD), apply)  # noqa: ARG005


def test_bfloat16_rounds_what_is_multiplied_and_nothing_else():
    seen = []
    low = maxfl.with_precision(linear(seen), "bfloat16")
    params = low.init(jax.random.key(0))
    assert params.dtype == jnp.float32
    logits = low.apply(params, jnp.ones((3, 1)))
    assert seen == [(jnp.bfloat16, jnp.bfloat16)]
    assert logits.dtype == jnp.float32
    np.testing.assert_array_equal(logits, np.full((3, 2), 0.333984375, np.float32))
    gradient = jax.grad(lambda w: low.apply(w, jnp.full((1, 1), 0.5)).sum())(params)
    assert gradient.dtype == jnp.float32
    np.testing.assert_array_equal(gradient, 0.5)


def test_float32_is_asked_of_every_product():
    full = maxfl.with_precision(linear(), "float32")
    params, x = full.init(jax.random.key(0)), jnp.ones((3, 1))
    step = jax.jit(jax.grad(lambda w: full.apply(w, x).sum()))
    products = [line for line in step.lower(params).as_text().splitlines() if "dot" in line]
    assert products
    assert all("HIGHEST" in line for line in products)


def test_one_program_for_equal_arguments_and_none_for_the_default():
    model = linear()
    assert maxfl.with_precision(model, "platform") is model
    assert maxfl.with_precision(model, "bfloat16") is maxfl.with_precision(model, "bfloat16")


def test_an_unknown_precision_is_refused():
    with pytest.raises(maxfl.InputError, match="expected one of platform, float32, bfloat16"):
        maxfl.with_precision(linear(), "float8")


@pytest.mark.slow
def test_a_federation_learns_in_bfloat16():
    full, low = (
        train(maxfl.maxfl(), model=maxfl.with_precision(MODEL, p)) for p in ("platform", "bfloat16")
    )
    assert all(a.dtype == np.float32 for a in jax.tree.leaves(low.params))
    np.testing.assert_array_equal(full.cohorts.client_id, low.cohorts.client_id)
    for a, b in zip(jax.tree.leaves(full.params), jax.tree.leaves(low.params), strict=True):
        assert (a != b).any(), "products were rounded"
        np.testing.assert_allclose(a, b, atol=0.05)


@pytest.mark.parametrize("loss", ["huber", maxfl.losses.huber, maxfl.losses.next_token])
def test_a_loss_that_is_none_is_refused(loss):
    with pytest.raises(maxfl.InputError, match=r"such as maxfl\.losses\.squared_error"):
        Model(MODEL.init, MODEL.apply, loss=loss)


def test_a_scaling_of_bytes_is_compiled_in_on_a_gpu(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    scaling = compiled_scaling(InputScaling(np.float32([2]), 0.5), np.uint8([1]))
    assert scaling == CompiledScaling(np.float32(2), np.float32(0.5))
    assert not jax.tree.leaves(scaling)
    scaled = jax.jit(scale_inputs)(scaling, np.uint8([2, 4]))
    np.testing.assert_array_equal(scaled, np.float32([0, 1]))


@pytest.mark.parametrize(
    ("backend", "shift", "stored"),
    [
        ("cpu", np.float32(2), np.uint8([1])),
        ("gpu", np.float32(2), np.float32([1])),
        ("gpu", np.float32([2, 4]), np.uint8([1])),
    ],
    ids=["on a CPU", "floats", "of each feature"],
)
def test_other_scalings_are_inputs_of_one_program(monkeypatch, backend, shift, stored):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    scaling = InputScaling(shift, np.float32(1))
    assert compiled_scaling(scaling, stored) is scaling
