"""Minibatches: what a client draws from its own data, and the gradient on it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.federation import Samples
from maxfl.core.model import (
    LocalSteps,
    Model,
    Params,
    Scaling,
    StepsAtOnce,
    Variables,
    model_inputs,
)
from maxfl.core.prng import batch_key, dropout_key


class Task(NamedTuple):
    """A model, and the samples of all clients that it is trained or measured on.

    Attributes:
        model: The model.
        input_scaling: From stored features to its input.
        samples: Of all clients.
        frozen: The model's parameters that nobody trains; () where it has none.
    """

    model: Model
    input_scaling: Scaling
    samples: Samples
    frozen: Any = ()

    def inputs(self, x: Array) -> Array:
        """Return the model's input of stored features."""
        return model_inputs(self.model, self.input_scaling, x)


class Minibatches(NamedTuple):
    """The minibatches of one client in a round.

    Attributes:
        client: Its slot in the samples.
        key: Of all of its draws in the round.
        size: b, or the largest b of a sweep.
        used: b of this configuration, where it may be smaller: then only the first so many samples
            count, the same ones that a minibatch of that size has.
        flips: Whether labels are reversed, y → classes − 1 − y: those of a Byzantine client.
        classes: Number of classes, where labels are flipped.
    """

    client: Array
    key: Array
    size: int
    used: Array | None = None
    flips: Array | None = None
    classes: Any = None


def draw_rows(key: Array, count: int, size: Array) -> Array:
    """Draw ``count`` row numbers below ``size``, int32[count], uniform to within size/2³².

    One draw of bits and a remainder: half the work of ``jax.random.randint``, whose second draw
    would take away a bias that no client is large enough to show.
    """
    bits = jax.random.bits(key, (count,), jnp.uint32)
    return (bits % size.astype(jnp.uint32)).astype(jnp.int32)


class BatchGradient(NamedTuple):
    """The gradient of a client's minibatches, by their numbers.

    Attributes:
        task: Model and samples.
        minibatches: Of the client.
    """

    task: Task
    minibatches: Minibatches

    def __call__(self, params: Params, draw: Any, scale: Any = 1.0) -> Params:
        """Compute ``scale`` times the gradient of the mean loss on minibatch ``draw``.

        The minibatch is drawn with replacement, so a client of any size, one sample or ten
        thousand, gives batches of one shape without padding. Of ``Variables``, the gradient's state
        is how far the model's state falls, old − new, whatever the scale.
        """
        model, (stored, y) = self.task.model, self._samples(self._rows(draw))
        x = self.task.inputs(stored)

        def scaled_loss(w: Params) -> tuple[Array, Any]:
            now = Variables(w, params.state) if isinstance(params, Variables) else w
            key = dropout_key(self.minibatches.key, draw)
            outputs, state = model.training_outputs(now, x, key, self.task.frozen)
            losses, used = model.loss(outputs, y), self.minibatches.used
            if used is None:
                return scale * losses.mean(), state
            counts = jnp.arange(len(losses)) < used
            return scale * jnp.where(counts, losses, 0.0).sum() / used, state

        if not isinstance(params, Variables):
            return jax.grad(scaled_loss, has_aux=True)(params)[0]
        gradient, state = jax.grad(scaled_loss, has_aux=True)(params.params)
        return Variables(gradient, jax.tree.map(jnp.subtract, params.state, state))

    def descend(self, params: Params, steps: int, learning_rate: Array, /) -> Params | None:
        """Take plain steps, many at once, or return None where the model takes them one by one."""
        at_once = self.steps_at_once(params, steps)
        if at_once == 0:
            return None

        def take(first: Any, count: int, w: Params) -> Params:
            # A barrier: minibatches are gathered when their turn comes, not all at the beginning.
            w, first = jax.lax.optimization_barrier((w, jnp.asarray(first)))
            return self.take_steps(w, first, count, learning_rate)

        # Apart from the rest: all clients' first steps read one model, not a copy for each.
        params = self.take_steps(params, 0, at_once, learning_rate)
        whole, rest = divmod(steps, at_once)
        if whole > 1:
            params = jax.lax.fori_loop(
                1, whole, lambda part, w: take(part * at_once, at_once, w), params
            )
        return take(steps - rest, rest, params) if rest else params

    def steps_at_once(self, params: Params, steps: int) -> int:
        """Return how many of so many plain steps are taken at once; 0 if one by one."""
        model = self.task.model
        if not isinstance(model.apply, StepsAtOnce) or model.tokens or steps < 2:
            return 0
        most = model.apply.most_steps(params, model.loss, self.minibatches.size)
        return -(-steps // -(-steps // most)) if most > 1 else 0

    def take_steps(self, params: Params, first: Any, count: int, learning_rate: Array) -> Params:
        """Take plain steps at once, on minibatches number ``first`` and so on."""
        draws, size, used = first + jnp.arange(count), self.minibatches.size, self.minibatches.used
        stored, y = self._samples(jax.vmap(self._rows)(draws))
        keys = jax.vmap(lambda draw: dropout_key(self.minibatches.key, draw))(draws)
        counts = jnp.ones(size) / size if used is None else (jnp.arange(size) < used) / used
        apply: Any = self.task.model.apply
        steps = LocalSteps(stored, self.task.input_scaling, y, keys, -learning_rate * counts)
        found: Params = apply.take_steps(params, steps)
        return found

    def _rows(self, draw: Any) -> Array:
        """Return where the samples of a minibatch are, int32[b]."""
        client, offsets = self.minibatches.client, self.task.samples.offsets
        start, end = offsets[client], offsets[client + 1]
        drawn = draw_rows(batch_key(self.minibatches.key, draw), self.minibatches.size, end - start)
        return start + drawn

    def _samples(self, rows: Array) -> tuple[Array, Array]:
        """Return stored features and labels of some samples."""
        samples, flips = self.task.samples, self.minibatches.flips
        x, y = samples.x[rows], samples.y[rows]
        return x, y if flips is None else jnp.where(flips, self.minibatches.classes - 1 - y, y)
