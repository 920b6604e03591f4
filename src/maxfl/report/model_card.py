"""The model card: what a model is, on which data, under which requirements, and for whom it fails.

Mitchell et al., "Model Cards for Model Reporting", FAT* 2019.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from maxfl.report.configurations import Configuration
from maxfl.report.names import method_name
from maxfl.report.source import Source
from maxfl.report.table import Figure
from maxfl.report.traces import Partition, Trace, read_partition, read_trace
from maxfl.utils.paths import MODEL

MOST_CARDS = 20
"""Of one folder; a sweep of hundreds has its figures in the tables."""
LEAST_TELLING = 3
"""Clients on either side, below which nothing is said of how they differ."""
MOST_NAMED = 10
"""Clients that are named among those whom the model fails."""


class Section(NamedTuple):
    """A heading and its paragraphs or points."""

    heading: str
    lines: list[str]


def cards(source: Source) -> str:
    """The cards of a folder's models as Markdown."""
    shown = source.configurations[:MOST_CARDS]
    texts = [_markdown(own, sections(own, read_trace(own))) for own in shown]
    if left := len(source.configurations) - len(shown):
        texts.append(f"{left} more configurations: see clients.parquet and summary.json.\n")
    return "\n".join(texts)


def _markdown(own: Configuration, parts: list[Section]) -> str:
    body = "".join(
        f"\n## {part.heading}\n\n" + "".join(f"- {line}\n" for line in part.lines) for part in parts
    )
    title = ", ".join(part for part in (own.method, own.case, f"seed {own.seed}") if part)
    return f"# Model card: {title}\n{body}"


def sections(own: Configuration, trace: Trace | None) -> list[Section]:
    """The card of one model; with means only, without what it does to single clients."""
    parts = [
        Section("The model", [*_model(own.settings), _weights(own)]),
        Section("The data", [f"{own.data}.", *_split(own.settings), *_clients(trace, own.settings),
                             *(f"Note: {note}." for note in own.entry["notes"])]),
        Section("What clients require", _requirement(own.settings)),
    ]  # fmt: skip
    if trace is not None:
        parts += [
            Section("What it reaches", _reaches(trace, own.entry)),
            Section("For whom it does not work", _fails(trace, read_partition(own.place))),
        ]
    elif "answers" in own.entry:
        parts.append(Section("What it reaches", _as_told(own.entry["seen"])))
    if "answers" in own.entry:
        parts.append(Section("How clients answered", _on_the_way(own.entry)))
    return [*parts, Section("Before you use it", _advice())]


def _model(settings: Mapping[str, Any]) -> list[str]:
    get = settings.get
    numbers = {k.removeprefix("algorithm."): v for k, v in settings.items()
               if k.startswith("algorithm.") and k != "algorithm.name"}  # fmt: skip
    special = ", ".join(f"{k} {v}" for k, v in numbers.items() if v is not None)
    lines = [f"Trained with {method_name(settings)}{f' ({special})' if special else ''}."]
    if "training.cohort" in settings:
        lines.append(
            f"{get('training.rounds')} rounds of {get('training.cohort')} clients, "
            f"{get('training.local_steps')} local steps on {get('training.batch_size')} samples, "
            f"learning rates {get('training.local_lr')} (clients) and {get('training.server_lr')} "
            f"(server); seed {get('seed')}."
        )
    elif "training.rounds" in settings:  # a real federation: its clients know the rest
        lines.append(
            f"{get('training.rounds')} rounds on Flower, learning rate of the server "
            f"{get('training.server_lr')}."
        )
    if "model.hidden" in settings:
        hidden = " and ".join(map(str, settings["model.hidden"]))
        lines.append(
            f"A dense network with hidden layers of {hidden} units, dropout {get('model.dropout')}."
        )
    return lines


def _weights(own: Configuration) -> str:
    place = own.place.name if own.place == own.named else own.place.relative_to(own.named)
    return f"Its weights: `{place}/{MODEL}`, in the format safetensors."


def _split(settings: Mapping[str, Any]) -> list[str]:
    """How the data were shared out."""
    kind = settings.get("data.partition")
    if kind is None or settings.get("data.source") == "disk":  # shared out when it was written
        return []
    how = {
        "dirichlet": f"labels skewed by Dirichlet({settings.get('data.alpha')})",
        "clusters": f"{settings.get('data.clusters')} clusters of clients with labels of their own",
        "by-owner": "by the owners that the data name",
    }
    lines = [f"Shared out among clients: {how.get(str(kind), str(kind))}."]
    if flipped := settings.get("data.flipped"):
        lines.append(
            f"{100 * flipped:.0f} % of the clients have labels that contradict the others'."
        )
    return lines


def _clients(trace: Trace | None, settings: Mapping[str, Any]) -> list[str]:
    if trace is None:
        return []
    seen, unseen = int(trace.seen.sum()), int((~trace.seen).sum())
    sizes = trace.train_samples[trace.seen]
    low, high = sizes.min(), sizes.max()
    each = f"{low}" if low == high else f"{low} to {high} (median {np.median(sizes):.0f})"
    lines = [f"{seen} clients could take part in training, with {each} training samples each."]
    if unseen:
        lines.append(f"{unseen} more clients were kept out of training, to see how it generalises.")
    if liars := int(trace.byzantine.sum()):
        attack = ", ".join(f"{k.removeprefix('adversary.').replace('_', ' ')} {v}" for k, v
                           in settings.items() if k.startswith("adversary.") and v)  # fmt: skip
        lines.append(f"{liars} clients are Byzantine ({attack}); they count in no figure.")
    return lines


def _requirement(settings: Mapping[str, Any]) -> list[str]:
    loss, own_rule = settings.get("requirement.loss"), settings.get("requirement.rule")
    kind = settings.get("requirement.kind") or (
        own_rule if own_rule else "solo" if loss is None else "fixed"
    )
    multiple = settings.get("requirement.multiple", 1.0)
    times = "" if multiple == 1 else f", times {multiple}"
    rule = {
        "solo": f"The model must have a smaller loss than the one that the client trains alone, "
        f"in {settings.get('requirement.steps', 'some')} steps{times}.",
        "fixed": f"The model must have a loss below {loss}.",
        "clients": "Each client sets its own, and keeps it to itself unless it is asked to tell.",
    }
    lines = [rule.get(str(kind), f"A rule of the user's own ({kind}).")]
    presence = settings.get("participation.rule", "everyone")
    if presence == "everyone":
        lines.append("Clients could not refuse, satisfied or not.")
    else:
        lines.append(
            f"Clients might refuse to take part ({presence}) after round "
            f"{settings.get('participation.start')}, where the model did not meet it."
        )
    return lines


def _reaches(trace: Trace, entry: Mapping[str, Any]) -> list[str]:
    lines = []
    for who, group in _groups(trace):
        accuracy = trace.accuracy[-1, group]
        met = int(trace.satisfied[-1, group].sum())
        low, mean, high = (
            Figure.of([v], 1, percent=True).printed[0]
            for v in (accuracy.min(), accuracy.mean(), accuracy.max())
        )
        lines.append(
            f"It meets the requirement of {met} of {len(accuracy)} {who} clients (GM-Appeal "
            f"{Figure.of([met / len(accuracy)], 2).printed[0]}), with a test accuracy of {mean} % "
            f"on average, {low} to {high} % from client to client."
        )
    for who, own in (entry.get("personal") or {}).items():
        if own is not None:
            appeal, accuracy = own["gm_appeal"]["held-out"], own["test_accuracy"]
            lines.append(
                f"With personal models, made from it, GM-Appeal of the {who} clients is "
                f"{Figure.of([appeal], 2).printed[0]}, and their accuracy "
                f"{Figure.of([accuracy], 1, percent=True).printed[0]} %."
            )
    if entry.get("diverged"):
        lines.append("TRAINING DIVERGED: losses are not finite. Do not use this model.")
    if start := entry.get("stalled_from_round"):
        lines.append(f"Training stopped at round {start}: nobody was willing any more.")
    return lines


def _groups(trace: Trace) -> list[tuple[str, Any]]:
    honest = ~trace.byzantine
    groups = [("seen", trace.seen & honest), ("unseen", ~trace.seen & honest)]
    return [(who, group) for who, group in groups if group.any()]


def _fails(trace: Trace, partition: Partition | None) -> list[str]:
    lines = []
    gap = trace.held_out_gap[-1]
    for who, group in _groups(trace):
        lost = group & ~trace.satisfied[-1]
        if not lost.any():
            lines.append(f"It meets the requirement of all {int(group.sum())} {who} clients.")
            continue
        count, total = int(lost.sum()), int(group.sum())
        lines.append(
            f"It does not meet the requirement of {count} of {total} {who} clients: their held-out "
            f"loss is above it (median gap {np.median(gap[lost]):.2f})."
            + _in_points(trace.solo_accuracy[lost].mean() - trace.accuracy[-1, lost].mean())
        )
        lines += _marks(lost, group & ~lost, partition)
        worst = np.flatnonzero(lost)[np.argsort(-gap[lost], kind="stable")][:MOST_NAMED]
        named = ", ".join(f"{trace.name[k]} (gap {gap[k]:.2f})" for k in worst)
        lines.append(f"{'The worst off: ' if count > len(worst) else ''}{named}.")
    return lines


def _in_points(worse: float) -> str:
    """The same as accuracy, where it is known what clients reach alone."""
    if not np.isfinite(worse):
        return ""
    points = Figure.of([abs(worse)], 1, percent=True).printed[0]
    return (
        f" On average its accuracy is {points} points {'lower' if worse > 0 else 'higher'} there "
        f"than that of the model each would train alone."
    )


def _as_told(figures: Mapping[str, Any]) -> list[str]:
    """What the clients of a real federation say, where none of them is known by itself."""
    known = {reading: v for reading, v in figures["gm_appeal"].items() if v is not None}
    lines = [f"GM-Appeal {v:.2f}, by the clients' {reading} data; see the notes above."
             for reading, v in known.items()]  # fmt: skip
    if figures["test_accuracy"] is not None:
        accuracy = Figure.of([figures["test_accuracy"]], 1, percent=True).printed[0]
        lines.append(f"Test accuracy {accuracy} % on average.")
    return lines or ["Nobody has said."]


def _on_the_way(entry: Mapping[str, Any]) -> list[str]:
    """How clients of a real federation answered, and what was guaranteed to them."""
    answers, privacy = entry["answers"], entry.get("privacy")
    lines = [
        f"Over all rounds, clients were asked {answers['asked']} times: {answers['took_part']} "
        f"times they took part, {answers['declined']} times they declined, {answers['failed']} "
        f"times they failed or did not answer, {answers['rejected']} replies were rejected."
    ]
    if privacy is None:
        return [*lines, "The server saw every client's update; nothing was added for privacy."]
    if privacy["secure"]:
        lines.append("The server saw sums over clients alone (secure aggregation).")
    if privacy["epsilon"] is not None:
        lines.append(
            f"Differential privacy for each client: ε = {privacy['epsilon']:.2f} at δ = "
            f"{privacy['delta']:g}, over {privacy['rounds']} rounds with noise multiplier "
            f"{privacy['noise_multiplier']:g}, updates clipped to {privacy['clip']:g}, each client "
            f"drawn with probability {privacy['sampling_probability']:g}. The counts are noisy too."
        )
    return lines


def _marks(lost: Any, kept: Any, partition: Partition | None) -> list[str]:
    """What the clients it fails have that the others have not."""
    if partition is None:
        return []
    lines = []
    flipped = partition.flipped
    if (flipped & (lost | kept)).any():
        lines.append(
            f"{int((flipped & lost).sum())} of them have labels that contradict the others'; of "
            f"the {int(kept.sum())} that it serves, {int((flipped & kept).sum())}."
        )
    if min(lost.sum(), kept.sum()) < LEAST_TELLING:
        return lines
    shares = partition.counts / partition.counts.sum(1, keepdims=True)
    theirs, others = shares[lost].mean(0), shares[kept].mean(0)
    order = np.argsort(others - theirs)[:3]
    telling = [i for i in order if theirs[i] > 1.5 * others[i] and theirs[i] - others[i] > 0.05]
    if telling:
        words = ", ".join(
            f"{partition.labels[i]} ({100 * theirs[i]:.0f} % of their samples, "
            f"{100 * others[i]:.0f} % of the others')"
            for i in telling
        )
        lines.append(f"They have more of: {words}.")
    return lines


def _advice() -> list[str]:
    return [
        "Compare it with your own model on your own held-out data, by the loss: that is what the "
        "requirement is about.",
        "It was not tested for privacy leaks, nor on data from other sources than the above.",
    ]
