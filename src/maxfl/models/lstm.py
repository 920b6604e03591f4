"""A recurrent network of long short-term memory, for characters or other tokens.

Hochreiter, Schmidhuber, 1997, with the forget gate of Gers et al., 2000. From one position to the
next, of a layer with state (h, c):

    i, f, g, o = x W + h U + b        h, c ← σ(o) tanh(c'), c' = σ(f + 1) c + σ(i) tanh(g)

LEAF's for Shakespeare (Caldas et al., 2018): characters embedded in 8 numbers, two layers of 256.
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.losses import Loss, cross_entropy, next_token
from maxfl.core.model import Model
from maxfl.models.arguments import check_dropout, check_widths
from maxfl.models.fitting import ModelEntry, fit_tokens
from maxfl.models.layers import Layer, dense, drop, init_dense, init_embedding
from maxfl.utils.errors import check_count


class Recurrent(NamedTuple):
    """A layer: from its inputs [inputs, 4 · units], from its state [units, 4 · units], and bias."""

    inputs: Array
    state: Array
    bias: Array


class Lstm(NamedTuple):
    """Parameters: a vector for each token, recurrent layers, and the output."""

    embedding: Array
    layers: tuple[Recurrent, ...]
    output: Layer


class Form(NamedTuple):
    """Checked arguments, as ``lstm`` has them; ``classes`` is None for next tokens."""

    vocabulary: int
    classes: int | None
    embedding: int
    hidden: tuple[int, ...]
    dropout: float


def lstm(
    vocabulary: int | None = None,
    classes: int | None = None,
    embedding: int = 8,
    hidden: Sequence[int] = (256, 256),
    dropout: float = 0.0,
    loss: Loss | None = None,
) -> Model:
    """Return a recurrent network of tokens [n, length].

    The defaults are LEAF's for Shakespeare. Cached, so that equal arguments give one model and one
    compiled program. ``lstm()`` takes vocabulary and outputs from the federation that it is trained
    on.

    Args:
        vocabulary: Number of tokens; they count from 0.
        classes: Number of outputs of a sequence, [n, classes], from its last position: sequences of
            several lengths are padded in front. None: logits of the next token at every position,
            [n, length, vocabulary].
        embedding: Numbers that a token becomes.
        hidden: Units of the recurrent layers.
        dropout: Share of each layer's outputs dropped in training, at least 0 and below 1.
        loss: What it is trained on; by default cross-entropy, or the next token's, without
            padding by token 0.
    """
    rate = check_dropout(dropout)
    check_count("embedding", embedding, least=1)
    widths = check_widths("hidden", hidden, "the units of each recurrent layer", least=1)
    if vocabulary is None and classes is None:
        return LSTM.unsized(loss, embedding=embedding, hidden=widths, dropout=rate)
    check_count("vocabulary", vocabulary, least=1)
    if classes is not None:
        check_count("classes", classes, least=1)
    default = next_token() if classes is None else cross_entropy
    form = Form(vocabulary, classes, embedding, widths, rate)  # type: ignore[arg-type]
    return _lstm(form, loss or default)


@functools.cache
def _lstm(form: Form, loss: Loss) -> Model:
    """Return the model itself, one for each set of checked arguments."""
    widths = (form.embedding, *form.hidden)

    def init(key: Array) -> Lstm:
        first, last, *keys = jax.random.split(key, len(widths) + 1)
        pairs = zip(keys, widths, form.hidden, strict=False)
        return Lstm(
            init_embedding(first, form.vocabulary, form.embedding),
            tuple(_init_recurrent(k, inputs, units) for k, inputs, units in pairs),
            init_dense(last, widths[-1], form.classes or form.vocabulary),
        )

    def apply(params: Lstm, x: Array, key: Array | None = None) -> Array:
        h = params.embedding[x].swapaxes(0, 1)
        for depth, layer in enumerate(params.layers):
            h = recur(layer, h)
            h = drop(key if key is None else jax.random.fold_in(key, depth), h, form.dropout)
        if form.classes is not None:
            return dense(params.output, h[-1])
        return dense(params.output, h).swapaxes(0, 1)

    name = f"lstm of {form.vocabulary:,} tokens"
    return Model(init, apply, loss, tokens=True, name=name)


def _init_recurrent(key: Array, inputs: int, units: int) -> Recurrent:
    """Draw weights uniform in ±1/√units."""
    bound = 1 / math.sqrt(units)
    draws = jax.random.uniform(key, (inputs + units + 1, 4 * units), minval=-bound, maxval=bound)
    return Recurrent(draws[:inputs], draws[inputs:-1], draws[-1])


def recur(layer: Recurrent, x: Array) -> Array:
    """Return h of every position, [length, n, units], of x [length, n, inputs], from h = c = 0."""
    units = len(layer.state)
    zero = jnp.zeros((x.shape[1], units), x.dtype)

    def step(state: tuple[Array, Array], from_input: Array) -> tuple[tuple[Array, Array], Array]:
        h, c = state
        i, f, g, o = jnp.split(from_input + h @ layer.state, 4, axis=-1)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    # What comes from the inputs is one product of all positions; only the state's is in turn.
    return jax.lax.scan(step, (zero, zero), x @ layer.inputs + layer.bias)[1]


LSTM = ModelEntry("lstm", lstm, fit_tokens, tokens=True)
