"""What clients require of a model, in a sentence."""

from collections.abc import Mapping
from typing import Any

from maxfl.core.metrics import MetricInfo
from maxfl.report.measures import deciding_words


def requirement_words(settings: Mapping[str, Any], decides: MetricInfo | None) -> str:
    """Say what clients require, by a run's settings and the metric that decides."""
    words, given = deciding_words(decides), _Given(settings)
    match given.kind:
        case "solo":
            better = "a smaller loss than" if decides is None else f"as good a value of {words} as"
            return (
                f"The model must have {better} the one that the client trains alone, in "
                f"{given('steps', 'some')} steps{_times(given('multiple', 1.0))}."
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
