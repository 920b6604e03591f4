"""The model card: what a model is, on which data, under which requirements, and for whom it fails.

Mitchell et al., "Model Cards for Model Reporting", FAT* 2019.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.metrics import MetricInfo
from maxfl.report.configurations import Configuration
from maxfl.report.measures import capitalised, deciding_words
from maxfl.report.model_card.model import model_lines
from maxfl.report.model_card.results import (
    answer_lines,
    mean_lines,
    served_lines,
    trouble_lines,
    unserved_lines,
)
from maxfl.report.requirement_words import HeldOut, judging_words, requirement_words
from maxfl.report.source import Source
from maxfl.report.traces import Trace, read_partition, read_trace

MOST_CARDS = 20
"""Of one folder; a sweep of hundreds has its figures in the tables."""


class Section(NamedTuple):
    """A heading and its paragraphs or points."""

    heading: str
    lines: list[str]


def cards(source: Source) -> str:
    """Write the cards of a folder's models in Markdown."""
    first = source.configurations[:MOST_CARDS]
    texts = [_markdown(one, sections(one, read_trace(one))) for one in first]
    if left := len(source.configurations) - len(first):
        texts.append(f"{left} more configurations: see clients.parquet and summary.json.\n")
    return "\n".join(texts)


def _markdown(configuration: Configuration, parts: list[Section]) -> str:
    body = "".join(
        f"\n## {part.heading}\n\n" + "".join(f"- {line}\n" for line in part.lines) for part in parts
    )
    return f"# Model card: {card_title(configuration)}\n{body}"


def card_title(configuration: Configuration) -> str:
    """Return method, data and seed of a model."""
    seed = "" if configuration.is_real else f"seed {configuration.seed}"
    parts = (configuration.method, configuration.case, seed)
    return ", ".join(part for part in parts if part)


def sections(configuration: Configuration, trace: Trace | None) -> list[Section]:
    """Write the card of one model; without a trace, nothing is said of single clients."""
    settings, entry = configuration.settings, configuration.entry
    parts = [
        Section("The model", model_lines(configuration)),
        Section("The data", [_sentence(configuration.data), *_split(settings),
                             *_clients(trace, settings),
                             *(f"Note: {note}." for note in entry["notes"])]),
        Section("What clients require", _requirement(configuration, trace)),
    ]  # fmt: skip
    if trace is not None:
        partition = read_partition(configuration.run_folder)
        parts += [
            Section("What it reaches", served_lines(trace, entry, configuration.metric)),
            Section("For whom it does not work", unserved_lines(trace, partition, configuration)),
        ]
    elif "answers" in entry:
        lines = [*mean_lines(entry["seen"], configuration.metric), *trouble_lines(entry)]
        parts.append(Section("What it reaches", lines))
    if "answers" in entry:
        parts.append(Section("How clients answered", answer_lines(entry)))
    return [*parts, Section("Before you use it", _advice(configuration.decides))]


def _sentence(words: str) -> str:
    """Return words as a sentence; a file keeps its name."""
    is_file = "." in words.split(" ")[0]
    return f"{words if is_file else capitalised(words)}."


def _split(settings: Mapping[str, Any]) -> list[str]:
    """Say how the data were split over clients."""
    kind = settings.get("data.partition")
    if kind is None or settings.get("data.source") == "disk":  # split when it was written
        return []
    how = {
        "dirichlet": f"labels skewed by Dirichlet({settings.get('data.alpha')})",
        "clusters": f"{settings.get('data.clusters')} clusters of clients, each with other labels",
        "by-owner": "by the owners that the data name",
    }
    lines = [f"Split over clients: {how.get(str(kind), str(kind))}."]
    if flipped := settings.get("data.flipped_fraction"):
        lines.append(
            f"{100 * flipped:.0f} % of the clients have labels that contradict the others'."
        )
    return lines


def _clients(trace: Trace | None, settings: Mapping[str, Any]) -> list[str]:
    if trace is None:
        return []
    seen, unseen = int(trace.seen.sum()), int((~trace.seen).sum())
    parts = {"training": trace.train_samples, "judging": trace.judging_samples}
    each = " and ".join(
        f"{_sizes(samples[trace.seen])} {part}" for part, samples in parts.items() if samples.any()
    )
    lines = [f"{_count(seen)} could participate in training, with {each} samples each."]
    if unseen:
        lines.append(f"Held out of training, to see how it generalises: {unseen} more.")
    if byzantine := int(trace.byzantine.sum()):
        attack = ", ".join(f"{k.removeprefix('attack.').replace('_', ' ')} {v}" for k, v
                           in settings.items() if k.startswith("attack.") and v)  # fmt: skip
        lines.append(f"Byzantine, and counted in no figure: {_count(byzantine)} ({attack}).")
    return lines


def _sizes(samples: NDArray[np.int64]) -> str:
    """Say how many samples clients have, from the fewest to the most."""
    low, high = samples.min(), samples.max()
    return f"{low}" if low == high else f"{low} to {high} (median {np.median(samples):.0f})"


def _count(clients: int) -> str:
    return f"{clients} client{'s' if clients != 1 else ''}"


def _requirement(configuration: Configuration, trace: Trace | None) -> list[str]:
    settings = configuration.settings
    held_out = HeldOut(
        configuration.entry.get("own_judging_part"),
        trace is not None and not trace.judging_samples.any(),
    )
    words = requirement_words(settings, configuration.decides)
    lines = [words, *judging_words(settings, held_out)]
    participation = settings.get("participation.rule", "everyone")
    if participation == "everyone":
        lines.append("Clients could not refuse, satisfied or not.")
    else:
        lines.append(
            f"Clients might refuse to participate ({participation}) after round "
            f"{settings.get('participation.start_round')}, where they were not satisfied."
        )
    return lines


def _advice(decides: MetricInfo | None) -> list[str]:
    return [
        f"Compare it with your own model on data that neither was trained on, by the "
        f"{deciding_words(decides)}: that is what the requirement is about.",
        "It was not tested for privacy leaks, nor on data from other sources than the above.",
    ]
