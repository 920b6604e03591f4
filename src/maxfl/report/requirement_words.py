"""What clients require of a model, and what they judge it by, in sentences."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from maxfl.core.metrics import MetricInfo
from maxfl.core.requirements.solo_training import FOLLOWING, TRAINING
from maxfl.report.measures import deciding_words


def requirement_words(settings: Mapping[str, Any], decides: MetricInfo | None) -> str:
    """Say what clients require, by a run's settings and the metric that decides."""
    words, given = deciding_words(decides), _Given(settings)
    match given.kind:
        case "solo":
            better = "a smaller loss than" if decides is None else f"as good a value of {words} as"
            return (
                f"The model must have {better} the one that the client trains alone, in "
                f"{_either(given('steps', 'some'))} steps{_times(given('multiple', 1.0))}."
            )
        case "fixed":
            return f"The model must have a loss below {given('loss')}."
        case "metric":
            least = "at most" if decides is None or not decides.higher_is_better else "at least"
            return f"The model must have {least} {given('value')} of {words}."
        case "file":
            rest = given("otherwise")
            others = f" Those that have none: {rest}." if isinstance(rest, str) else ""
            return f"Each client has its own value of {words} that the model must have.{others}"
        case "clients":
            return "Each client sets its requirement, and does not tell it unless it is asked to."
        case kind:
            rule = given("rule", kind)
            return f"A custom rule ({rule}) says what {words} the model must have for each client."


class HeldOut(NamedTuple):
    """What is known of the samples that clients judge by and do not train on.

    Attributes:
        is_own_part: Whether the data came with them; None where the run does not tell.
        is_empty: Whether no client has any.
    """

    is_own_part: bool | None = None
    is_empty: bool = False


UNKNOWN = HeldOut()


def judging_words(settings: Mapping[str, Any], held_out: HeldOut = UNKNOWN) -> list[str]:
    """Say how clients train alone and what data they judge by, where the run knows.

    Settings of earlier versions say neither: then it was as the paper has it.
    """
    given = _Given(settings)
    if given.kind == "clients":
        return []
    compares = given.kind in ("solo", "custom") or given("otherwise") in ("solo", "custom", True)
    return [*([_alone(given)] if compares else []), _judging(given, held_out)]


def _alone(given: "_Given") -> str:
    """Say how clients train alone."""
    rates, sizes = (given(name, TRAINING) for name in FOLLOWING)
    if rates == TRAINING:
        rate = "with the run's own learning rate"
    else:
        rate = f"with learning rate {_either(rates)}"
    if sizes == TRAINING:
        size = "minibatches of the run's own size"
    else:
        size = f"minibatches of {_either(sizes)} samples"
    several = any(len(_ways(given(name, 1))) > 1 for name in ("steps", *FOLLOWING))
    best = " Each client keeps the best of its models, by what it judges by." if several else ""
    follows = TRAINING in (rates, sizes)
    moves = " So what it requires changes with these." if follows else ""
    return f"Clients train alone {rate}, on {size}.{best}{moves}"


def _judging(given: "_Given", held_out: HeldOut) -> str:
    """Say what data clients judge by."""
    by_training = given("judge", TRAINING) == TRAINING
    if by_training or held_out.is_empty:
        why = "" if by_training else ": all have too few samples to hold any out"
        return (
            f"Clients judge by their training data, on which a model that they trained alone has "
            f"an advantage{why}."
        )
    words = "Clients judge by samples that they do not train on"
    fraction = given("judge_fraction")
    if held_out.is_own_part:
        return f"{words}: the judging part that the data have."
    if not fraction:
        return f"{words}."
    unless = ", unless the data have a part for it" if held_out.is_own_part is None else ""
    return f"{words}: {100 * fraction:.3g} % of their training data{unless}."


def _ways(value: Any) -> list[str]:
    """Return each of several numbers, which are a list in a file and a text from Python."""
    if isinstance(value, list | tuple):
        return [str(one) for one in value]
    return str(value).split(", ")


def _either(value: Any) -> str:
    *first, last = _ways(value)
    return f"{', '.join(first)} or {last}" if first else last


class _Given:
    """The settings of a requirement, as a file or Python gave them."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings

    def __call__(self, name: str, default: Any = None) -> Any:
        return self._settings.get(f"requirement.{name}", default)

    @property
    def kind(self) -> str:
        """The kind; runs from Python do not name it."""
        if (named := self("kind")) is not None:
            return str(named)
        if self("clients"):
            return "file"
        kinds = {"rule": "custom", "value": "metric", "loss": "fixed"}
        return next((kind for name, kind in kinds.items() if self(name) is not None), "solo")


def _times(multiple: Any) -> str:
    return "" if multiple == 1 else f", times {multiple}"
