"""Low-rank adapters: the merged model's values and gradients, without any client's own base."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import maxfl
from maxfl import InputError

D, CLIENTS, RANK = 8, 7, 3
TOKENS = jnp.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
SHAPES = {
    "embedding": (11, D), "position": (10, D), "heads": (D, 2, 4), "out": (2, 4, D),
    "packed": (D, 2 * D), "transposed": (9, D), "stacked": (5, D, D), "recurrent": (D, D),
    "branch": (D, D), "folded": (2, 4, D), "bias": (D,),
}  # fmt: skip


def init(key):
    return {n: 0.3 * jax.random.normal(key, shape) for n, shape in SHAPES.items()}


def apply(w, x, _key=None):
    """Use weights in all ways that rules know."""
    h = w["embedding"][x] + w["position"][: x.shape[1]]
    heads = jnp.einsum("btd,dhk->bthk", h, w["heads"])
    h = h + jnp.einsum("bthk,hkd->btd", jnp.tanh(heads), w["out"]) + w["bias"]
    left, right = jnp.split(w["packed"], 2, axis=1)
    h = h + jax.checkpoint(lambda h, w: (h @ w.T) @ w)(h @ left, w["transposed"])
    h, _ = jax.lax.scan(lambda h, layer: (h + jnp.tanh(h @ layer), None), h, w["stacked"])
    step = lambda c, ht: (jnp.tanh(ht + c @ w["recurrent"]),) * 2  # noqa: E731
    _, h = jax.lax.scan(step, jnp.zeros_like(h[:, 0]), h.swapaxes(0, 1))
    h = jax.lax.cond(w["bias"][0] < 9, lambda h: h @ w["branch"], lambda h: h, h)
    h = h @ w["folded"].reshape(D, D) + h @ right.astype(jnp.float32)
    return (w["embedding"] @ h.swapaxes(0, 1)[:, -1, :, None])[..., 0]


BASE = maxfl.Model(init, apply, tokens=True)
PARAMS = init(jax.random.key(0))
MODEL = maxfl.lora(BASE, RANK, params=PARAMS, alpha=2.0)


def draw(model, key):
    """Adapters with B not zero."""
    like = jax.eval_shape(model.init, key)
    return jax.tree.map(lambda a: 0.3 * jax.random.normal(key, a.shape), like)


def outputs(adapters, x, frozen):
    return MODEL.outputs(adapters, x, frozen)


def shapes(jaxpr):
    """The shapes of all intermediates, inside of everything."""
    for equation in jaxpr.eqns:
        yield from (tuple(v.aval.shape) for v in equation.outvars if hasattr(v.aval, "shape"))
        for inner in jaxprs_in_params(equation.params):
            yield from shapes(inner)


def test_values_and_gradients_are_those_of_the_merged_model():
    adapters = draw(MODEL, jax.random.key(1))
    assert set(adapters) == set(SHAPES) - {"bias"}

    def merged_outputs(adapters):
        return BASE.outputs(maxfl.merge_lora(MODEL, adapters), TOKENS)

    def both(adapters):
        functions = (lambda a: outputs(a, TOKENS, PARAMS)), merged_outputs
        return [jax.value_and_grad(lambda a, f=f: (f(a) ** 2).sum())(adapters) for f in functions]

    found, wanted = jax.jit(both)(adapters)
    assert wanted[0] > 0.1
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-5), found, wanted)


def test_no_client_has_a_base_of_its_own():
    def of_all(tree):
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct((CLIENTS, *a.shape), a.dtype), tree)

    adapters, x = of_all(jax.eval_shape(MODEL.init, jax.random.key(0))), of_all(TOKENS)

    def slope(adapters, x, frozen):
        return jax.grad(lambda a: outputs(a, x, frozen).sum())(adapters)

    jaxpr = jax.make_jaxpr(jax.vmap(slope, (0, 0, None)))(adapters, x, PARAMS)
    weights = {tuple(sorted((CLIENTS, *shape))) for shape in SHAPES.values() if len(shape) > 1}
    found = {tuple(sorted(shape)) for shape in shapes(jaxpr.jaxpr)}
    assert not found & weights


def test_training_starts_from_the_base():
    merged = jax.jit(lambda key: maxfl.merge_lora(MODEL, MODEL.init(key)))(jax.random.key(3))
    jax.tree.map(np.testing.assert_array_equal, merged, PARAMS)
    assert MODEL.frozen is PARAMS
    assert MODEL.tokens


def test_where_chooses_by_path_and_array():
    by_pattern = maxfl.lora(BASE, 2, "^(out|packed)$", params=PARAMS)
    by_function = maxfl.lora(BASE, 2, lambda _, w: w.shape == (D, D), params=PARAMS)
    names = [set(jax.eval_shape(m.init, jax.random.key(0))) for m in (by_pattern, by_function)]
    assert names == [{"out", "packed"}, {"recurrent", "branch"}]
    out = jax.eval_shape(by_pattern.init, jax.random.key(0))["out"]
    assert (out.A.shape, out.B.shape) == ((2, 4, 2), (2, D))


@pytest.mark.parametrize("use", [lambda w: w**2, lambda w: (8 * w).astype(int).astype(float)])
def test_a_weight_that_is_used_otherwise_is_formed(use):
    base = maxfl.Model(lambda _: {"w": PARAMS["recurrent"]}, lambda p, x, _=None: x + use(p["w"]))
    model = maxfl.lora(base, 1, params=base.init(None))
    adapters = draw(model, jax.random.key(1))
    found = jax.jit(model.outputs)(adapters, jnp.zeros(()), model.frozen)
    w = PARAMS["recurrent"] + adapters["w"].A @ adapters["w"].B
    np.testing.assert_allclose(found, use(w), atol=1e-6)


def test_state_stays_with_the_clients():
    def apply(variables, x, key=None):
        outputs = x @ variables.params["w"] - variables.state
        return outputs if key is None else (outputs, variables.state + 1)

    given = maxfl.Variables({"w": PARAMS["recurrent"]}, jnp.ones(()))
    model = maxfl.lora(maxfl.Model(lambda _: given, apply), 2, params=given)
    variables = model.init(jax.random.key(0))
    outputs, state = model.training_outputs(variables, jnp.eye(D), jax.random.key(1), model.frozen)
    np.testing.assert_allclose(outputs, given.params["w"] - 1, atol=1e-6)
    assert state == 2
    assert maxfl.merge_lora(model, variables).state == given.state


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InputError, match="chooses none of the model's matrices; there are branch,"):
        maxfl.lora(BASE, 2, "bias", params=PARAMS)
    with pytest.raises(InputError, match="frozen parameters already"):
        maxfl.lora(MODEL, 2, params=PARAMS)
    with pytest.raises(InputError, match="the model has no adapters"):
        maxfl.merge_lora(dataclasses.replace(MODEL, apply=apply), PARAMS)
    with pytest.raises(InputError, match="rank = 0"):
        maxfl.lora(BASE, 0, params=PARAMS)
