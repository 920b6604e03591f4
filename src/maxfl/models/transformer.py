"""A small transformer for characters or other tokens, each of which sees those before it.

Vaswani et al., NeurIPS 2017; normalised before each part and with GELU, as GPT-2 (Radford et al.,
2019). Tokens and positions are embedded in w numbers; of each block, h ← h + attend(norm(h)) and
h ← h + feed(norm(h)), with 4w units between the two layers of ``feed``.
"""

import functools
from typing import NamedTuple

import jax
from jax import Array

from maxfl.core.losses import Loss, cross_entropy, next_token
from maxfl.core.model import Model
from maxfl.models.arguments import check_dropout
from maxfl.models.attention import Attention, attend, init_attention
from maxfl.models.fitting import ModelEntry, fit_sequences
from maxfl.models.layers import Layer, dense, drop, gelu, init_dense, init_embedding
from maxfl.models.normalisation import Scaling, init_scaling, layer_norm_beside
from maxfl.utils.errors import InputError, check_count


class Block(NamedTuple):
    """Attention and two dense layers, each with the normalisation before it."""

    before_attention: Scaling
    attention: Attention
    before_feed: Scaling
    up: Layer
    down: Layer


class Transformer(NamedTuple):
    """Parameters: vectors of tokens and positions, blocks, last normalisation, and the output."""

    tokens: Array
    positions: Array
    blocks: tuple[Block, ...]
    last: Scaling
    output: Layer


class Form(NamedTuple):
    """Checked arguments, as ``transformer`` has them; ``classes`` is None for next tokens."""

    vocabulary: int
    length: int
    classes: int | None
    width: int
    depth: int
    heads: int
    dropout: float


def transformer(
    vocabulary: int | None = None,
    length: int | None = None,
    classes: int | None = None,
    width: int = 128,
    depth: int = 2,
    heads: int = 4,
    dropout: float = 0.1,
    loss: Loss | None = None,
) -> Model:
    """Return a transformer of tokens [n, length].

    Cached, so that equal arguments give one model and one compiled program. ``transformer()`` takes
    vocabulary, length and outputs from the federation that it is trained on.

    Args:
        vocabulary: Number of tokens; they count from 0.
        length: Tokens of a sequence, at most.
        classes: Number of outputs of a sequence, [n, classes], from its last position: sequences of
            several lengths are padded in front. None: logits of the next token at every position,
            [n, length, vocabulary].
        width: Numbers that a token becomes.
        depth: Number of blocks.
        heads: Heads of attention; they divide the width.
        dropout: Share dropped in training of the embedding and of what each part adds, at least 0
            and below 1.
        loss: What it is trained on; by default cross-entropy, or the next token's, without
            padding by token 0.
    """
    rate = check_dropout(dropout)
    for name, value in {"width": width, "depth": depth, "heads": heads}.items():
        check_count(name, value, least=1)
    if width % heads:
        raise InputError(f"heads = {heads} do not divide width = {width}: give a divisor of it")
    if vocabulary is None and length is None and classes is None:
        return TRANSFORMER.unsized(loss, width=width, depth=depth, heads=heads, dropout=rate)
    check_count("vocabulary", vocabulary, least=1)
    check_count("length", length, least=1)
    if classes is not None:
        check_count("classes", classes, least=1)
    default = next_token() if classes is None else cross_entropy
    form = Form(vocabulary, length, classes, width, depth, heads, rate)  # type: ignore[arg-type]
    return _transformer(form, loss or default)


@functools.cache
def _transformer(form: Form, loss: Loss) -> Model:
    """Return the model itself, one for each set of checked arguments."""

    def init(key: Array) -> Transformer:
        tokens, positions, output, *keys = jax.random.split(key, form.depth + 3)
        return Transformer(
            init_embedding(tokens, form.vocabulary, form.width),
            init_embedding(positions, form.length, form.width),
            tuple(_init_block(k, form.width) for k in keys),
            init_scaling(form.width),
            init_dense(output, form.width, form.classes or form.vocabulary),
        )

    def apply(params: Transformer, x: Array, key: Array | None = None) -> Array:
        def dropped(h: Array, place: int) -> Array:
            return drop(key if key is None else jax.random.fold_in(key, place), h, form.dropout)

        if x.shape[1] > form.length:
            raise InputError(
                f"sequences of {x.shape[1]} tokens, but the transformer was made for length = "
                f"{form.length}: make one for longer ones"
            )
        h = dropped(params.tokens[x] + params.positions[: x.shape[1]], 0)
        for i, block in enumerate(params.blocks):
            h, normal = layer_norm_beside(block.before_attention, h)
            h = h + dropped(attend(block.attention, normal, form.heads), 2 * i + 1)
            h, normal = layer_norm_beside(block.before_feed, h)
            h = h + dropped(dense(block.down, gelu(dense(block.up, normal))), 2 * i + 2)
        h = h if form.classes is None else h[:, -1]
        return dense(params.output, layer_norm_beside(params.last, h)[1])

    name = f"transformer of {form.vocabulary:,} tokens"
    return Model(init, apply, loss, tokens=True, name=name)


def _init_block(key: Array, width: int) -> Block:
    attention, up, down = jax.random.split(key, 3)
    return Block(
        init_scaling(width),
        init_attention(attention, width),
        init_scaling(width),
        init_dense(up, width, 4 * width),
        init_dense(down, 4 * width, width),
    )


TRANSFORMER = ModelEntry("transformer", transformer, fit_sequences, tokens=True)
