"""The model card: what a model is, on which data, under which requirements, and for whom it fails.

Mitchell et al., "Model Cards for Model Reporting", FAT* 2019.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.local_optimizers import ADAMW_DECAY
from maxfl.core.metrics import MetricInfo
from maxfl.report.configurations import Configuration
from maxfl.report.legacy import METRICS
from maxfl.report.measures import (
    APPEAL,
    capitalised,
    deciding_words,
    direction,
    measure_of,
    words_of,
)
from maxfl.report.names import method_name
from maxfl.report.requirement_words import HeldOut, judging_words, requirement_words
from maxfl.report.source import Source
from maxfl.report.traces import Partition, Trace, read_partition, read_trace
from maxfl.utils.paths import MODEL

MOST_CARDS = 20
"""Of one folder; a sweep of hundreds has its figures in the tables."""
LEAST_TELLING = 3
"""Clients on either side, below which nothing is said of how they differ."""
MOST_NAMED = 10
"""Clients that are named among those that are not satisfied."""
ALL_MODELS_HAVE = ("name", "loss", "huber_delta", "padding", "precision")
"""Settings that do not say what a model is like."""


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
        Section("The model", [*_model(settings), *_parameters(entry), _weights(configuration),
                              *_portfolio(entry)]),
        Section("The data", [_sentence(configuration.data), *_split(settings),
                             *_clients(trace, settings),
                             *(f"Note: {note}." for note in entry["notes"])]),
        Section("What clients require", _requirement(configuration, trace)),
    ]  # fmt: skip
    if trace is not None:
        partition = read_partition(configuration.run_folder)
        parts += [
            Section("What it reaches", _reaches(trace, entry, configuration.metric)),
            Section("For whom it does not work", _fails(trace, partition, configuration)),
        ]
    elif "answers" in entry:
        lines = [*_means(entry["seen"], configuration.metric), *_troubles(entry)]
        parts.append(Section("What it reaches", lines))
    if "answers" in entry:
        parts.append(Section("How clients answered", _answers(entry)))
    return [*parts, Section("Before you use it", _advice(configuration.decides))]


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _model(settings: Mapping[str, Any]) -> list[str]:
    get = settings.get
    hparams = {k.removeprefix("algorithm."): v for k, v in settings.items()
               if k.startswith("algorithm.") and k != "algorithm.name"}  # fmt: skip
    given = ", ".join(f"{k} {v}" for k, v in hparams.items() if v is not None)
    name = str(get("algorithm.name", ""))
    method = f"own code, `{name}`" if ":" in name else method_name(settings)
    lines = [f"Trained with {method}{f' ({given})' if given else ''}."]
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
            f"{get('training.server_lr')}{_optimizer(settings)}."
        )
    if "model.name" in settings or "model.hidden" in settings:
        lines.append(_architecture(settings))
    return lines + _local_steps(settings)


def _optimizer(settings: Mapping[str, Any]) -> str:
    """Say what takes the server's steps, if they are not plain."""
    optimizer = settings.get("server.optimizer", "sgd")
    return "" if optimizer == "sgd" else f", steps by {optimizer}"


def _local_steps(settings: Mapping[str, Any]) -> list[str]:
    """Say what differs from plain steps at constant rates."""
    get, said = settings.get, []
    optimizer, decay = get("local.optimizer", "sgd"), get("local.weight_decay")
    decay = decay if decay is not None else ADAMW_DECAY if optimizer == "adamw" else 0
    clip = get("local.clip_norm")
    more = [f"weight decay {decay}"] if decay else []
    more += [f"gradients clipped to a norm of {clip}"] if clip not in (None, "inf") else []
    if optimizer != "sgd" or more:
        said.append(f"Clients take steps of {', '.join([optimizer, *more])}.")
    for rate, whose in (("local", "clients"), ("server", "server")):
        if warmup := get(f"schedule.{rate}_warmup"):
            said.append(f"The rate of the {whose} first rises over {warmup:g} rounds.")
        if (curve := get(f"schedule.{rate}", "constant")) != "constant":
            end = get(f"schedule.{rate}_end")
            said.append(f"The rate of the {whose} falls ({curve}) to {end} of itself.")
    return said


def _architecture(settings: Mapping[str, Any]) -> str:
    """Say what the model is; folders of version 0.1 have no name for it."""
    name = settings.get("model.name", "mlp")
    if name == "mlp" and "model.hidden" in settings:
        hidden = " and ".join(map(str, settings["model.hidden"]))
        return (
            f"A dense network with hidden layers of {hidden} units, dropout "
            f"{settings.get('model.dropout')}."
        )
    table = {k.removeprefix("model."): v for k, v in settings.items() if k.startswith("model.")}
    given = ", ".join(f"{k} {v}" for k, v in table.items() if k not in ALL_MODELS_HAVE and v)
    return f"The model {name}{f' ({given})' if given else ''}."


def _parameters(entry: Mapping[str, Any]) -> list[str]:
    """Say how large the model is and what it is trained on; older summaries do not tell."""
    if "model" not in entry:
        return []
    words = {"trained": "trained", "state": "of state", "frozen": "frozen"}
    counts = entry["model"]["parameters"]
    sizes = ", ".join(f"{counts[kind]:,} {word}" for kind, word in words.items() if counts[kind])
    return [f"Its parameters: {sizes}. Its loss: `{entry['model']['loss']}`."]


def _portfolio(entry: Mapping[str, Any]) -> list[str]:
    """Say how many models there are, and how many clients picked each."""
    groups: Mapping[str, list[dict[str, Any]]] = entry.get("portfolio", {})
    if not groups:
        return []
    counts = {
        group: ", ".join(f"{one['satisfied']} of {one['clients']}" for one in models)
        for group, models in groups.items()
    }
    each = "; ".join(f"{group} {words}" for group, words in counts.items())
    return [
        f"There are {len(groups['seen'])} models, along a leading axis of the weights. Each client "
        f"picks the one that suits it by the data that it judges by, and everything below is of "
        f"that one.",
        f"Satisfied of those that picked each model: {each}.",
    ]


def _weights(configuration: Configuration) -> str:
    folder, named = configuration.run_folder, configuration.named
    shortest = folder.name if folder == named else folder.relative_to(named)
    return f"Its weights: `{shortest}/{MODEL}`, in the format safetensors."


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


def _called(name: Any) -> str:
    """Return what a client is called; one whose name is a number is a client with that number."""
    return f"client {name}" if str(name).isdigit() else str(name)


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


def _reaches(trace: Trace, entry: Mapping[str, Any], metric: MetricInfo) -> list[str]:
    lines, measure = [], measure_of(metric)
    for name, group in _groups(trace, "answers" in entry):
        values = trace.metric[-1, group]
        satisfied = int(trace.satisfied[-1, group].sum())
        low = measure.statistic([values.min()]).printed[0]
        lines.append(
            f"It meets the requirement of {satisfied} of {len(values)} {name} (GM-Appeal "
            f"{APPEAL.printed(satisfied / len(values))}), with a {measure.words}"
            f"{direction(metric)} of {measure.printed(values.mean())} on average, {low} to "
            f"{measure.printed(values.max())} from client to client."
        )
    for name, figures in (entry.get("personal") or {}).items():
        if figures is not None:
            lines.append(
                f"With personal models, made from it, GM-Appeal of the {name} clients is "
                f"{APPEAL.printed(figures['gm_appeal']['test'])}, and their "
                f"{words_of(metric)} {measure.printed(figures[measure.key])}."
            )
    return lines + _troubles(entry)


def _troubles(entry: Mapping[str, Any]) -> list[str]:
    """Say what went wrong in training."""
    lines = ["TRAINING DIVERGED. Do not use this model."] if entry.get("diverged") else []
    if start := entry.get("stalled_from_round"):
        who = "nobody participated" if "answers" in entry else "no honest client was willing"
        lines.append(f"Training stopped at round {start}: {who} any more.")
    return lines + [f"WARNING: {warning['text']}." for warning in entry.get("warnings", [])]


def _groups(trace: Trace, is_real: bool) -> list[tuple[str, Any]]:
    """Return the honest clients by what they are called; a real federation has no unseen ones."""
    honest = ~trace.byzantine
    groups = [("clients" if is_real else "seen clients", trace.seen & honest),
              ("unseen clients", ~trace.seen & honest)]  # fmt: skip
    return [(name, group) for name, group in groups if group.any()]


def _fails(trace: Trace, partition: Partition | None, configuration: Configuration) -> list[str]:
    lines, metric = [], configuration.metric
    gap = trace.test_gap[-1]
    for name, group in _groups(trace, configuration.is_real):
        unsatisfied, total = group & ~trace.satisfied[-1], int(group.sum())
        if not unsatisfied.any():
            lines.append(f"It meets the requirement of {total} of {total} {name}.")
            continue
        count = int(unsatisfied.sum())
        lines.append(
            f"It does not meet the requirement of {count} of {total} {name}: their "
            f"test {deciding_words(trace.decides)} misses it "
            f"(median gap {np.median(gap[unsatisfied]):.2f})."
            + _against_solo(
                trace.metric[-1, unsatisfied].mean() - trace.solo_metric[unsatisfied].mean(), metric
            )
        )
        lines += _marks(unsatisfied, group & ~unsatisfied, partition)
        order = np.argsort(-gap[unsatisfied], kind="stable")
        worst = np.flatnonzero(unsatisfied)[order][:MOST_NAMED]
        named = ", ".join(f"{_called(trace.name[k])} (gap {gap[k]:.2f})" for k in worst)
        lines.append(f"{'The worst off: ' if count > len(worst) else ''}{named}.")
    return lines


def _against_solo(difference: float, metric: MetricInfo) -> str:
    """Say how the metric differs from the solo models', where it is known what these reach."""
    if not np.isfinite(difference):
        return ""
    amount = measure_of(metric).statistic([abs(difference)]).printed[0]
    amount += " points" if metric.percent else ""
    way = "lower" if difference < 0 else "higher"
    if not metric.higher_is_better:
        way += " (better)" if difference < 0 else " (worse)"
    return (
        f" On average its {words_of(metric)} is {amount} {way} for them than that of the model "
        f"each would train alone."
    )


def _means(figures: Mapping[str, Any], metric: MetricInfo) -> list[str]:
    """Say what the clients of a real federation report, where there are only means."""
    known = {reading: v for reading, v in figures["gm_appeal"].items() if v is not None}
    lines = [f"GM-Appeal {v:.2f}, by the clients' {reading} data; see the notes above."
             for reading, v in known.items()]  # fmt: skip
    measure = measure_of(metric)
    if (value := figures[measure.key]) is not None:
        words = capitalised(measure.words) + direction(metric)
        lines.append(f"{words} {measure.printed(value)} on average.")
    return lines or ["Nobody has said."]


def _answers(entry: Mapping[str, Any]) -> list[str]:
    """Say how clients of a real federation answered, and what was guaranteed to them."""
    counts = {METRICS.get(name, name): count for name, count in entry["answers"].items()}
    privacy = entry.get("privacy")
    lines = [
        f"Over all rounds, clients were sampled {counts['sampled']} times: "
        f"{counts['participated']} times they participated, {counts['declined']} times they "
        f"declined, {counts['failed']} times they failed or did not answer, "
        f"{counts['rejected']} replies were rejected."
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


def _marks(unsatisfied: Any, satisfied: Any, partition: Partition | None) -> list[str]:
    """Say what unsatisfied clients have that satisfied ones have not."""
    if partition is None:
        return []
    lines = []
    flipped = partition.flipped
    if (flipped & (unsatisfied | satisfied)).any():
        lines.append(
            "Clients whose labels contradict the others': "
            f"{int((flipped & unsatisfied).sum())} of {int(unsatisfied.sum())} unsatisfied, "
            f"{int((flipped & satisfied).sum())} of {int(satisfied.sum())} satisfied."
        )
    if min(unsatisfied.sum(), satisfied.sum()) < LEAST_TELLING:
        return lines
    shares = partition.counts / partition.counts.sum(1, keepdims=True)
    theirs, others = shares[unsatisfied].mean(0), shares[satisfied].mean(0)
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


def _advice(decides: MetricInfo | None) -> list[str]:
    return [
        f"Compare it with your own model on data that neither was trained on, by the "
        f"{deciding_words(decides)}: that is what the requirement is about.",
        "It was not tested for privacy leaks, nor on data from other sources than the above.",
    ]
