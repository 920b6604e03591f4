"""The settings of a report's runs at a glance: what they share, and what differs between them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from maxfl.report.configurations import Configuration
from maxfl.report.requirement_words import requirement_words
from maxfl.report.traces import Trace, TraceKey

MOST_VALUES = 4
"""Values of a setting that are named one by one."""
Settings = Mapping[str, Any]


class Fact(NamedTuple):
    """A setting for people: what it is called, and its value or values."""

    name: str
    value: str


def facts(configurations: Sequence[Configuration], traces: Mapping[TraceKey, Trace]) -> list[Fact]:
    """Say on what and how the runs were trained, as far as their folders tell.

    Clients are counted where they are known: data of one's own bring as many as they have.
    """
    settings = [c.settings for c in configurations]
    seeds = [] if configurations[0].is_real else [c.seed for c in configurations]
    found = [
        ("Data", _values(c.data for c in configurations)),
        ("Clients", _values(_clients(c, traces) for c in configurations)),
        ("Model", _values(map(_model, settings))),
        ("Rounds", _values(map(_rounds, settings))),
        ("Learning rates", _values(map(_rates, settings))),
        (
            "Requirement",
            _values(requirement_words(c.settings, c.decides) for c in configurations),
        ),
        ("Participation", _values(map(_participation, settings))),
        ("Byzantine", _values(map(_byzantine, settings))),
        ("Seeds", _values(map(str, sorted(set(seeds))))),
    ]
    return [Fact(name, value) for name, value in found if value]


def _values(values: Iterable[str]) -> str:
    """Return different values in their order; of many, how many there are."""
    different = [value for value in dict.fromkeys(values) if value]
    if len(different) > MOST_VALUES:
        return f"{', '.join(different[:2])}, … ({len(different)} different)"
    return "; ".join(different) if any("," in v for v in different) else ", ".join(different)


def _clients(configuration: Configuration, traces: Mapping[TraceKey, Trace]) -> str:
    settings = configuration.settings
    if trace := traces.get((configuration.case, configuration.method, configuration.seed)):
        seen = int(trace.seen.sum())
        words = _client_words(seen, len(trace.seen) - seen)
        is_streamed = settings.get("data.source") == "disk" or "streaming.eval_clients" in settings
        return f"{words} (those that evaluate the model)" if is_streamed else words
    clients, unseen = settings.get("data.clients"), settings.get("data.unseen", 0)
    return "" if clients is None else _client_words(clients, unseen)


def _client_words(seen: Any, unseen: Any) -> str:
    return f"{seen}, and {unseen} unseen" if unseen else str(seen)


def _model(settings: Settings) -> str:
    name, hidden = settings.get("model.name"), settings.get("model.hidden")
    return "" if name is None else f"{name}{f' {hidden}' if hidden else ''}"


def _rounds(settings: Settings) -> str:
    keys = "rounds", "cohort", "local_steps", "batch_size"
    rounds, cohort, steps, batch = (settings.get(f"training.{key}") for key in keys)
    if rounds is None:
        return ""
    how = "" if cohort is None else f" of {cohort} clients, {steps} steps on {batch} samples"
    return f"{rounds}{how}"


def _rates(settings: Settings) -> str:
    local, server = (settings.get(f"training.{key}") for key in ("local_lr", "server_lr"))
    return "" if local is None else f"{local} (clients), {server} (server)"


def _participation(settings: Settings) -> str:
    rule, start = (settings.get(f"participation.{key}") for key in ("rule", "start_round"))
    return "" if rule is None else rule if rule == "everyone" else f"{rule} after {start} rounds"


def _byzantine(settings: Settings) -> str:
    share = settings.get("attack.fraction")
    return f"{share:.0%} of the clients that train" if share else ""
