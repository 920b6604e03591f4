"""Losses of samples, worked by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl import losses

E = np.e


def test_cross_entropy():
    logits = jnp.log(jnp.array([[1.0, 3.0], [4.0, 1.0]]))
    np.testing.assert_allclose(
        losses.cross_entropy(logits, jnp.array([1, 1])), np.log([4 / 3, 5]), rtol=1e-6
    )


@pytest.mark.parametrize("shape", [(20, 10), (4, 8, 30)])
def test_cross_entropy_on_an_accelerator_is_the_same_up_to_rounding(shape, monkeypatch):
    rng = np.random.default_rng(0)
    outputs = jnp.asarray(5 * rng.normal(size=shape), jnp.float32)
    y = jnp.asarray(rng.integers(0, shape[-1], shape[:-1]), jnp.int32)

    def mean(outputs):
        return losses.cross_entropy(outputs, y).mean()

    here = jax.value_and_grad(mean)(outputs)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    there = jax.value_and_grad(mean)(outputs)
    assert "scatter" not in str(jax.make_jaxpr(jax.grad(mean))(outputs))
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    for wrong in (y[..., None], y.astype(jnp.float32)):
        with pytest.raises((TypeError, ValueError)):
            losses.cross_entropy(outputs, wrong)


def test_multi_label_is_a_mean_over_labels():
    # σ(0) = 1/2 whatever the label; σ(log 3) = 3/4.
    logits = jnp.array([[0.0, jnp.log(3.0)]])
    there, absent = jnp.array([[1, 1]]), jnp.array([[0.0, 0.0]])
    np.testing.assert_allclose(
        losses.multi_label(logits, there), [(np.log(2) + np.log(4 / 3)) / 2], rtol=1e-6
    )
    np.testing.assert_allclose(
        losses.multi_label(logits, absent), [(np.log(2) + np.log(4)) / 2], rtol=1e-6
    )


def test_errors_of_one_and_of_several_targets():
    outputs, y = jnp.array([[1.0], [5.0]]), jnp.array([3.0, 4.5])
    np.testing.assert_allclose(losses.squared_error(outputs, y), [4.0, 0.25])
    np.testing.assert_allclose(losses.absolute_error(outputs, y), [2.0, 0.5])
    np.testing.assert_allclose(losses.huber(1.0)(outputs, y), [1.5, 0.125])  # δ(|e| − δ/2), e²/2
    two = jnp.array([[1.0, 2.0]])
    np.testing.assert_allclose(losses.squared_error(two, jnp.array([[3.0, 2.0]])), [2.0])


def test_outputs_are_never_broadcast_over_targets():
    with pytest.raises(maxfl.InputError, match=r"outputs of shape \[3, 2\] for labels of shape"):
        losses.squared_error(jnp.zeros((3, 2)), jnp.zeros(3))
    with pytest.raises(maxfl.InputError, match="one output for each number"):
        losses.multi_label(jnp.zeros((3, 2)), jnp.zeros((3, 4)))


def test_next_token_leaves_padding_out():
    logits = jnp.log(jnp.array([[[1.0, 1, 2], [1, 2, 1], [5, 1, 1]], [[1, 1, 1]] * 3]))
    y = jnp.array([[2, 1, 0], [0, 0, 0]])
    expected = [(np.log(2) + np.log(2)) / 2, 0.0]  # the third token and the second row are padding
    np.testing.assert_allclose(losses.next_token(0)(logits, y), expected, rtol=1e-6)
    other = losses.next_token(padding=2)(logits, y)
    np.testing.assert_allclose(other, [(np.log(2) + np.log(7 / 5)) / 2, np.log(3)], rtol=1e-6)


def test_equal_numbers_make_equal_losses():
    assert losses.huber(2) == losses.huber(2.0) != losses.huber(1)
    assert losses.next_token(3) == losses.next_token(3) != losses.next_token()


@pytest.mark.parametrize("delta", [0, -1, float("nan"), "a"])
def test_a_bad_delta_is_refused(delta):
    with pytest.raises(maxfl.InputError, match="delta"):
        losses.huber(delta)


def test_losses_have_names():
    def ours(outputs, y):
        return outputs - y

    names = {
        losses.cross_entropy: "cross-entropy",
        losses.huber(2): "huber, delta 2",
        losses.next_token(-1): "next-token, padding -1",
        ours: "ours",
        functools.partial(ours): "ours",
    }
    assert [losses.loss_name(loss) for loss in names] == [*names.values()]
