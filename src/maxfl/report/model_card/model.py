"""What a model card says of the model: its method, steps, architecture, size and weights."""

from collections.abc import Mapping
from typing import Any

from maxfl.core.local_optimizers import ADAMW_DECAY
from maxfl.report.configurations import Configuration
from maxfl.report.names import method_name
from maxfl.utils.paths import MODEL

ALL_MODELS_HAVE = ("name", "loss", "huber_delta", "padding", "precision")
"""Settings that do not say what a model is like."""


def model_lines(configuration: Configuration) -> list[str]:
    """Say what the model is, how it was trained, and where it lies."""
    settings, entry = configuration.settings, configuration.entry
    return [
        *_training(settings), *_parameters(entry), _weights(configuration), *_portfolio(entry),
    ]  # fmt: skip


def _training(settings: Mapping[str, Any]) -> list[str]:
    """Say by which method the model was trained, with what numbers, and its architecture."""
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
    return lines + local_step_lines(settings)


def _optimizer(settings: Mapping[str, Any]) -> str:
    """Say what takes the server's steps, if they are not plain."""
    optimizer = settings.get("server.optimizer", "sgd")
    return "" if optimizer == "sgd" else f", steps by {optimizer}"


def local_step_lines(settings: Mapping[str, Any]) -> list[str]:
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
