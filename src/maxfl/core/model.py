"""A model: pure functions, the loss that it is trained on, and what is measured of it."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from maxfl.core.federation import Federation, InputScaling
from maxfl.core.losses import Loss, cross_entropy, huber, loss_name, next_token
from maxfl.core.metrics import MetricInfo, NamedMetric, default_metrics, name_metrics
from maxfl.utils.display import Rows, html_table, one_line
from maxfl.utils.errors import InputError

Params = Any
"""A pytree of float arrays; ``Variables`` for a model with state."""


class Variables(NamedTuple):
    """The parameters of a model with state that no gradient trains, such as BatchNorm's means.

    Attributes:
        params: What gradients train, a pytree of float32 arrays.
        state: What a forward pass in training mode renews, a pytree of float32 arrays.
    """

    params: Any
    state: Any


class Apply(Protocol):
    """Outputs of inputs [n, ...]; a key means training mode (dropout on).

    Of ``Variables``, training mode returns (outputs, new state). Of a model with frozen parameters,
    they come as the keyword ``frozen``.
    """

    def __call__(self, params: Params, x: Array, key: Array | None = None) -> Any:  # noqa: D102
        ...


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class CompiledScaling:
    """An ``InputScaling`` of two numbers that are constants of a program: others are another one.

    XLA's products on a GPU scale bytes on the way, if it knows by what.
    """

    shift: np.float32
    scale: np.float32


Scaling = InputScaling | CompiledScaling


class LocalSteps(NamedTuple):
    """Plain local steps of one client: w ← w + Σ_i c_i ∇loss_i(w), a minibatch after another.

    Attributes:
        stored: Features as they are stored, [steps, batch, ...].
        input_scaling: From these to the model's inputs.
        y: Labels, [steps, batch, ...].
        keys: Of the model's own draws, [steps].
        coefficients: c, −η_l/b or 0, float32[batch].
    """

    stored: Array
    input_scaling: Scaling
    y: Array
    keys: Array
    coefficients: Array


@runtime_checkable
class StepsAtOnce(Protocol):
    """An ``apply`` that computes several local steps in fewer operations than one after another."""

    def most_steps(self, params: Params, loss: Loss, batch: int) -> int:
        """Return how many steps it takes at once here; 0 if none."""

    def take_steps(self, params: Params, steps: LocalSteps) -> Params:
        """Take at most so many steps."""


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """Any model: how to draw its parameters, how to apply them, and what they are trained on.

    Attributes:
        init: ``init(key) -> params``; ``Variables`` for a model with state.
        apply: ``apply(params, x, key=None) -> outputs``; with a key, training mode.
        loss: ``loss(outputs, y) -> float[n]``, see ``maxfl.losses``.
        metrics: What else is measured, ``{name: Metric}``, see ``maxfl.metrics``; the first stands
            in tables. By default those that go with the loss.
        frozen: Parameters that nobody trains, shared by all clients and never sent: a pytree that
            ``apply`` gets as the keyword ``frozen``.
        keep_local: Whether each client keeps its state for itself instead of sending it with the
            update: BatchNorm's statistics, as in SiloBN (Andreux et al., 2020); FedBN (Li et al.,
            ICLR 2021) keeps its weights too. A client that never trained, an unseen one, and the
            saved model have the initial state.
        tokens: Whether inputs are numbers of tokens: int32, as they are stored, not scaled.
        name: For people; equal models may have different ones.
    """

    init: Callable[[Array], Params]
    apply: Apply
    loss: Loss = cross_entropy
    metrics: Any = None
    frozen: Any = None
    keep_local: bool = False
    tokens: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        makes_losses: tuple[Any, ...] = (huber, next_token)
        if not callable(self.loss) or self.loss in makes_losses:
            raise InputError(
                f"loss = {self.loss!r:.60}: expected a function of (outputs, y), such as "
                f"maxfl.losses.squared_error or maxfl.losses.huber(delta=1.0)"
            )
        given = default_metrics(self.loss) if self.metrics is None else self.metrics
        if isinstance(given, tuple) and all(isinstance(m, NamedMetric) for m in given):
            given = dict(given)  # of a model that is being changed
        object.__setattr__(self, "metrics", name_metrics(given, self.loss))

    @property
    def named_metrics(self) -> tuple[NamedMetric, ...]:
        """The metrics in their order."""
        named: tuple[NamedMetric, ...] = self.metrics
        return named

    @property
    def metric_infos(self) -> tuple[MetricInfo, ...]:
        """What tables need to know of the metrics, in their order."""
        return tuple(metric.info for metric in self.named_metrics)

    def outputs(self, params: Params, x: Array, frozen: Any = None) -> Any:
        """Apply the model in evaluation mode."""
        return self.apply(params, x, None, **self.frozen_argument(frozen))

    def training_outputs(
        self, params: Params, x: Array, key: Array, frozen: Any = None
    ) -> tuple[Any, Any]:
        """Apply the model in training mode; return outputs and new state, () without one."""
        outputs = self.apply(params, x, key, **self.frozen_argument(frozen))
        return outputs if isinstance(params, Variables) else (outputs, ())

    def frozen_argument(self, frozen: Any) -> dict[str, Any]:
        """Return the keyword by which ``apply`` gets frozen parameters, where there are any."""
        return {} if self.frozen is None else {"frozen": frozen}

    def for_federation(self, federation: Federation) -> "Model":  # noqa: ARG002
        """Return the model with the sizes of a federation: itself, since it has its sizes."""
        return self

    def changed(self, change: Callable[["Model"], "Model"]) -> "Model":
        """Return what ``change`` makes of the model, once it has its sizes."""
        return change(self)

    def summary(self) -> "ModelSummary":
        """Return what people and tables want to know of the model."""
        return ModelSummary(self.name, loss_name(self.loss), count_parameters(self))

    def __repr__(self) -> str:
        """Return a line with the number of parameters, the loss and the metrics."""
        return one_line("Model", lambda: ": ".join(filter(None, (self.name, self._words()))))

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return html_table("Model", self._rows)

    def _words(self) -> str:
        counts = ", ".join(f"{n:,} {kind} parameters" for kind, n in self._counts())
        return ", ".join([counts, loss_name(self.loss), *(m.name for m in self.named_metrics)])

    def _counts(self) -> list[tuple[str, int]]:
        kinds = count_parameters(self)._asdict().items()
        return [(kind, n) for kind, n in kinds if n or kind == "trained"]

    def _rows(self) -> Rows:
        yield "model", self.name or "own functions"
        for kind, count in self._counts():
            yield f"{kind} parameters", f"{count:,}"
        yield "loss", loss_name(self.loss)
        yield "metrics", ", ".join(metric.name for metric in self.named_metrics)

    def _key(self) -> tuple[Any, ...]:
        """Return what makes two models one; frozen arrays are known by their identity."""
        return (
            self.init, self.apply, self.loss, self.metrics, id(self.frozen), self.keep_local,
            self.tokens,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        """Compare functions and flags: equal models share one compiled program."""
        return isinstance(other, Model) and self._key() == other._key()

    def __hash__(self) -> int:
        """Return a number that equal models share."""
        return hash(self._key())


class UnsizedModel(Model):
    """A model that takes its sizes from the federation that it is trained on."""

    def __init__(self, name: str, make: Callable[[Federation], Model]) -> None:
        def refuse(*_: Any, **__: Any) -> Any:
            raise InputError(
                f"{name} has no sizes yet: a simulation takes them from its federation. For the "
                f"model itself give its sizes, or take .for_federation(federation)"
            )

        super().__init__(refuse, refuse, name=name)
        object.__setattr__(self, "_make", make)

    def for_federation(self, federation: Federation) -> Model:
        """Return the model for a federation's samples and labels."""
        sized: Model = self._make(federation)  # type: ignore[attr-defined]
        return sized

    def changed(self, change: Callable[[Model], Model]) -> Model:
        """Return the model to which ``change`` is done once it has its sizes."""
        return UnsizedModel(self.name, lambda federation: change(self.for_federation(federation)))

    def _words(self) -> str:
        return "sizes of the federation that it will be trained on"

    def _rows(self) -> Rows:
        yield "model", self.name
        yield "sizes", "of the federation that it will be trained on"


class ModelSummary(NamedTuple):
    """What people and tables want to know of a model."""

    name: str
    loss: str
    parameters: "ParameterCounts"


class ParameterCounts(NamedTuple):
    """How many numbers a model has.

    Attributes:
        trained: That gradients train.
        state: That a forward pass renews.
        frozen: That nobody trains; they never travel.
    """

    trained: int
    state: int
    frozen: int


def count_parameters(model: Model) -> ParameterCounts:
    """Count a model's parameters, without drawing them."""
    drawn = jax.eval_shape(model.init, jax.eval_shape(lambda: jax.random.key(0)))
    params, state = drawn if isinstance(drawn, Variables) else (drawn, ())
    sizes = [
        sum(math.prod(np.shape(leaf)) for leaf in jax.tree.leaves(tree))
        for tree in (params, state, model.frozen)
    ]
    return ParameterCounts(*sizes)


def compiled_scaling(scaling: InputScaling, stored: Any) -> Scaling:
    """Return a scaling to compile in, where that is worth a program of its own.

    It is for bytes on an accelerator, unless each feature has its own scaling. A CPU loses nothing
    by numbers that are known at run time only, and compiles once for all.
    """
    is_one = np.size(scaling.shift) == np.size(scaling.scale) == 1
    if jax.default_backend() == "cpu" or stored.dtype != np.uint8 or not is_one:
        return scaling
    shift, scale = (np.float32(np.asarray(part).item()) for part in scaling)
    return CompiledScaling(shift, scale)


def model_inputs(model: Model, input_scaling: Scaling, x: Array) -> Array:
    """Return a model's input of stored features: numbers of tokens, or scaled, float32."""
    return x.astype(jnp.int32) if model.tokens else scale_inputs(input_scaling, x)


def scale_inputs(input_scaling: Scaling, x: Array) -> Array:
    """Return the model's input of stored features, float32."""
    return (x.astype(jnp.float32) - input_scaling.shift) * input_scaling.scale


Precision = Literal["platform", "float32", "bfloat16"]


def with_precision(model: Model, precision: Precision) -> Model:
    """Return the model with its matrix multiplications in another precision.

    Cached, so that equal arguments give one model and one compiled program.

    Args:
        model: Any model with float32 parameters.
        precision: ``"platform"``: as JAX multiplies float32 by default: on GPUs of NVIDIA with
            TF32, on a CPU in full. ``"float32"``: in full everywhere. ``"bfloat16"``: parameters
            and inputs are rounded to bfloat16 first, and all of the model computes in it; state,
            which sums up over steps, stays float32.
    """
    if precision not in get_args(Precision):
        raise InputError(
            f"precision = {precision!r}: expected one of {', '.join(get_args(Precision))}"
        )
    if precision == "platform":
        return model
    return model.changed(lambda sized: _with_precision(sized, precision))


@functools.cache
def _with_precision(model: Model, precision: Precision) -> Model:
    def apply(params: Params, x: Array, key: Array | None = None, **frozen: Any) -> Any:
        if precision == "float32":
            with jax.default_matmul_precision("float32"):
                return model.apply(params, x, key, **frozen)
        has_state = isinstance(params, Variables)
        low = Variables(_rounded(params.params), params.state) if has_state else _rounded(params)
        found = model.apply(low, _rounded(x), key, **_rounded(frozen))
        return jax.tree.map(_widened, found)

    return dataclasses.replace(model, apply=apply)


def _rounded(tree: Any) -> Any:
    """Return float arrays in bfloat16, and others as they are."""
    return jax.tree.map(
        lambda a: a.astype(jnp.bfloat16) if jnp.issubdtype(a.dtype, jnp.floating) else a, tree
    )


def _widened(a: Array) -> Array:
    return a.astype(jnp.float32) if a.dtype == jnp.bfloat16 else a
