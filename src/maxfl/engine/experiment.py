"""What a user chose for a run: the federation, the model, the method, and all around it."""

import hashlib
import inspect
import re
from functools import lru_cache, partial
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxfl.core.aggregators import Aggregator
from maxfl.core.algorithm import Algorithm
from maxfl.core.attacks import Attack, nobody
from maxfl.core.federation import Federation, Samples
from maxfl.core.local_optimizers import LocalOptimizer
from maxfl.core.model import Model, ModelSummary, model_inputs
from maxfl.core.participation import Participation, everyone
from maxfl.core.portfolio import Portfolio
from maxfl.core.requirements.requirement import Requirement, solo
from maxfl.core.requirements.solo_training import TRAINING
from maxfl.core.schedules import Schedule, ScheduleHParams, ScheduleKind
from maxfl.core.server_optimizers import ServerOptimizer, sgd
from maxfl.engine.state import HParams


class Training(NamedTuple):
    """How the model is trained.

    Attributes:
        rounds: R.
        cohort: m, clients sampled in a round.
        local_steps: τ, SGD steps of a client in a round; a number, or one per configuration.
        batch_size: b; a number, or one per configuration. Where they differ, every minibatch is
            computed at the largest size, with the rest masked.
        local_lr: η_l; a number, or one per configuration.
        server_lr: η_g; a number, or one per configuration.
        evaluate_every: Rounds between two evaluations; the untrained and the final model are
            always evaluated.
        checkpoint_every: About so many rounds make one call of the compiled program, a block; the
            host saves and shows progress in between.
    """

    rounds: int = 200
    cohort: int = 5
    local_steps: ArrayLike = 30
    batch_size: ArrayLike = 32
    local_lr: ArrayLike = 0.05
    server_lr: ArrayLike = 1.0
    evaluate_every: int = 5
    checkpoint_every: int = 20

    @property
    def evaluations(self) -> int:
        """E: the number of evaluations, that of the untrained model included."""
        return 1 + -(-self.rounds // self.evaluate_every)


class Experiment(NamedTuple):
    """Everything that a result depends on; see ``Simulation`` for what each is."""

    federation: Federation
    model: Model
    algorithm: Algorithm
    training: Training
    requirement: Requirement
    participation: Participation
    server_optimizer: ServerOptimizer
    aggregator: Aggregator
    attack: Attack
    finetune_steps: ArrayLike
    seed: ArrayLike
    local_optimizer: LocalOptimizer = LocalOptimizer()
    local_schedule: Schedule = Schedule()
    server_schedule: Schedule = Schedule()
    portfolio: Portfolio = Portfolio()

    @property
    def hparams(self) -> HParams:
        """What can vary within a sweep without another program, as the user gave it."""
        return HParams(
            self.seed,
            self.training.local_steps,
            self.training.batch_size,
            self.training.local_lr,
            self.training.server_lr,
            self.algorithm.hparams,
            self.participation.hparams,
            self.server_optimizer.hparams,
            self.aggregator.hparams,
            self.attack.hparams,
            self.finetune_steps,
            self.local_optimizer.hparams,
            self._over_all_rounds(self.local_schedule),
            self._over_all_rounds(self.server_schedule),
            self.portfolio.hparams_for(self.algorithm),
        )

    def _over_all_rounds(self, schedule: Schedule) -> ScheduleHParams:
        """Return a schedule's numbers; by default it goes over all of training."""
        hparams = schedule.hparams
        return (
            hparams if hparams.rounds is not None else hparams._replace(rounds=self.training.rounds)
        )

    @property
    def max_batch_size(self) -> int:
        """The largest b of the sweep."""
        return int(np.max(self.training.batch_size))

    def describe(self) -> dict[str, Any]:
        """Return everything that a result depends on, as JSON can hold it.

        A method is known by its name and numbers, and one of the user's own by the source of its
        functions too, though not of what they call. A custom requirement is known by its name; a
        checkpoint also knows what it demanded.
        """
        return {
            "maxfl": version("maxfl"),
            "jax": jax.__version__,
            "federation": self.federation.digest_as_given(),
            "model": _model_digest(self.model, self.federation),
            **self.settings(),
        }

    def settings(self) -> dict[str, Any]:
        """Return the same without versions, data and model."""
        aggregator, attack = self.aggregator, self.attack
        return {
            "algorithm": {"name": self.algorithm.name, **_plain(self.algorithm.hparams)},
            **_own_code(self.algorithm),
            "training": _plain(self.training),
            "requirement": self._describe_requirement(),
            "participation": {
                "rule": str(self.participation.rule),
                **_plain(self.participation.hparams),
            },
            "server_optimizer": {
                "kind": str(self.server_optimizer.kind),
                **_plain(self.server_optimizer.hparams),
            },
            "aggregator": {
                "rule": str(aggregator.rule),
                "clips": aggregator.clips,
                **_plain(aggregator.hparams),
            },
            "attack": {
                "active": attack.active,
                "flip_labels": attack.flip_labels,
                "collude": attack.collude,
                **_plain(attack.hparams),
            },
            "finetune_steps": _number(self.finetune_steps),
            **self._describe_local_steps(),
            **self._describe_portfolio(),
            "seed": _number(self.seed),
        }

    def _describe_requirement(self) -> dict[str, Any]:
        """Return numbers by their names; the rest only where it is given."""
        given = self.requirement
        value = None if given.value is None else _number(given.value)
        described: dict[str, Any] = {
            **{name: _ways(ways) for name, ways in given.training._asdict().items()},
            "judge": given.judging.data,
            "judge_fraction": given.judging.fraction if given.judging.holds_out else None,
            "multiple": _number(given.multiple),
        }
        described |= {"loss": value} if given.metric is None else {"value": value}
        if given.rule is not None:
            described |= {"rule": getattr(given.rule, "__qualname__", "callable")}
        if given.metric is not None:
            described |= {"metric": given.metric}
        if given.clients is not None:
            described |= {"clients": given.clients.digest(), "otherwise": given.has_rest}
        return described

    def _describe_portfolio(self) -> dict[str, Any]:
        """Return what differs from one global model, if anything does."""
        several = self.portfolio.most_models > 1
        return {"portfolio": _plain(self.portfolio.hparams_for(self.algorithm))} if several else {}

    def _describe_local_steps(self) -> dict[str, Any]:
        """Return what differs from plain steps at constant rates; nothing, where nothing does."""
        changed: dict[str, Any] = {}
        if not self.local_optimizer.is_plain:
            kind, decays, clips, hparams = self.local_optimizer
            changed["local_optimizer"] = {
                "kind": str(kind), "decays": decays, "clips": clips, **_plain(hparams)
            }  # fmt: skip
        for name in ("local_schedule", "server_schedule"):
            schedule = getattr(self, name)
            if schedule.kind is not ScheduleKind.CONSTANT or schedule.warms_up:
                numbers = _plain(self._over_all_rounds(schedule))
                changed[name] = {"kind": str(schedule.kind), **numbers}
        return changed


class Origin(NamedTuple):
    """What a history is of, as plain data: it can be pickled, and holds no client's features.

    Attributes:
        federation: The clients whose history it is, with their labels where these are classes.
        settings: All that was chosen but data and model; lists where it differs by configuration.
        model: What was trained.
        seeds: Of the configurations, int[C].
        findings: What went wrong without an error in each configuration; () where it is not known.
    """

    federation: Federation
    settings: dict[str, Any]
    model: ModelSummary
    seeds: NDArray[np.int64]
    findings: Any = ()


def origin_of(
    experiment: Experiment, federation: Federation, configurations: int, **more: Any
) -> Origin:
    """Return what the history of an experiment is of; ``more`` are settings of its own."""
    bare = federation._replace(
        train=_without_features(federation, federation.train),
        test=_without_features(federation, federation.test),
        judging=federation.judging and _without_features(federation, federation.judging),
        known_digest=federation.digest(),
    )
    seeds = np.broadcast_to(np.asarray(experiment.seed, np.int64), configurations)
    return Origin(bare, experiment.settings() | more, experiment.model.summary(), seeds)


def _without_features(federation: Federation, samples: Samples) -> Samples:
    x, y = (np.empty((len(samples.y), 0), a.dtype) for a in samples[:2])
    return Samples(x, y if federation.classes is None else samples.y, samples.offsets)


def make_experiment(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    training: Training | None = None,
    **options: Any,
) -> Experiment:
    """Return an experiment, with defaults for what is not given or None."""
    chosen = {name: value for name, value in options.items() if value is not None}
    defaults = {
        "requirement": solo(), "participation": everyone(), "server_optimizer": sgd(),
        "aggregator": Aggregator(), "attack": nobody(), "finetune_steps": 0, "seed": 0,
    }  # fmt: skip
    training = Training() if training is None else training
    if isinstance(model, Model) and isinstance(federation, Federation):  # else it is refused later
        model = model.for_federation(federation)
    return Experiment(federation, model, algorithm, training, **{**defaults, **chosen})


def _model_digest(model: Model, federation: Federation) -> str:
    """Return SHA-256 of the model as compiled: its shapes and all that it computes."""
    inputs = partial(model_inputs, model, federation.input_scaling)
    x = jax.eval_shape(inputs, federation.train.x[:2])
    y = federation.train.y
    return _compiled_digest(model, x.shape, (2, *y.shape[1:]), y.dtype)


@lru_cache(maxsize=4)  # a model holds its frozen parameters
def _compiled_digest(
    model: Model, shape: tuple[int, ...], label_shape: tuple[int, ...], label_type: Any
) -> str:
    """Return SHA-256 of a model on samples of a shape, in both modes; a sweep asks many times."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    x = jax.ShapeDtypeStruct(shape, np.int32 if model.tokens else np.float32)
    y = jax.ShapeDtypeStruct(label_shape, label_type)

    def both(key: Any, x: Any, y: Any, frozen: Any) -> Any:
        params = model.init(key)
        outputs = model.outputs(params, x, frozen)
        metrics = [metric for _, metric in model.named_metrics]
        scores = [metric.function(outputs, y) for metric in metrics]
        finished = [m.of_mean(s) for m, s in zip(metrics, scores, strict=True) if m.of_mean]
        training = model.training_outputs(params, x, key, frozen)
        return outputs, training, model.loss(outputs, y), scores, finished

    text = jax.jit(both).lower(key, x, y, model.frozen).as_text()
    sha = hashlib.sha256(f"{text}{model.metric_infos}{model.keep_local}".encode())
    for leaf in jax.tree.leaves(model.frozen):
        sha.update(np.ascontiguousarray(leaf).view(np.uint8).data)
    return sha.hexdigest()


def _own_code(algorithm: Algorithm) -> dict[str, Any]:
    """Return SHA-256 of the source of a method's functions that are not this package's, if any."""
    source = "".join(_source(field) for field in algorithm if callable(field))
    return {"code": {"algorithm": hashlib.sha256(source.encode()).hexdigest()}} if source else {}


def _source(value: Any) -> str:
    """Return the source of a function, with what is bound to it; "" if it is this package's."""
    if isinstance(value, partial):
        bound = (*value.args, *(part for pair in sorted(value.keywords.items()) for part in pair))
        return "".join(map(_source, (value.func, *bound)))
    said = re.sub(" at 0x[0-9a-f]+", "", repr(value))  # elsewhere in the memory of each process
    if not callable(value):
        return said
    function = inspect.unwrap(value)
    if inspect.isroutine(function) or inspect.isclass(function):
        code, said = function, ""
    else:
        code = type(function)
    if (code.__module__ or "").partition(".")[0] == "maxfl":
        return ""
    try:
        return inspect.getsource(code) + said
    except (OSError, TypeError):  # typed into a prompt that keeps no source, or built in
        return said


def _ways(ways: tuple[Any, ...] | None) -> Any:
    """Return in which ways clients train alone, a number where there is one.

    Several are a text: a list would be read as a number of each configuration.
    """
    if ways is None:
        return TRAINING
    if any(np.ndim(way) for way in ways):  # every configuration has its own
        return [_ways(each) for each in zip(*np.broadcast_arrays(*ways), strict=True)]
    return _number(ways[0]) if len(ways) == 1 else ", ".join(map(str, ways))


def as_arrays(numbers: Any) -> Any:
    """Return every number as an array; a plain list or tuple is an array too, not a pytree."""

    def is_list(value: Any) -> bool:
        return isinstance(value, list) or (type(value) is tuple and value != ())

    return jax.tree.map(np.asarray, numbers, is_leaf=is_list)


def _plain(fields: Any) -> dict[str, Any]:
    """Return a NamedTuple of numbers and arrays as JSON can hold it; () has none."""
    named = fields._asdict() if fields != () else {}
    return {name: None if value is None else _number(value) for name, value in named.items()}


def _number(value: Any) -> Any:
    """Return numbers as JSON can hold them, which knows no infinity."""
    plain = np.asarray(value).tolist()
    return str(plain) if plain == float("inf") else plain
