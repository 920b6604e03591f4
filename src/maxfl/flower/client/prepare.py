"""Compute what a client requires before its node joins: no round's time limit runs meanwhile.

The app is loaded as Flower loads it and gets one message, made here, which says so; its
``appeal_mod`` computes ρ_k, keeps it, and does not call the app.
"""

import importlib
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from flwr.app import (
    DEFAULT_TTL,
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    Metadata,
    RecordDict,
    UserConfig,
)
from flwr.clientapp import ClientApp
from flwr.common.config import flatten_dict
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors

from maxfl.flower import keys
from maxfl.utils.errors import InputError, did_you_mean


class Node(NamedTuple):
    """What a node will be told.

    Attributes:
        node_config: As ``flower-supernode --node-config`` will have it.
        run_config: Settings of the app that ``flwr run --run-config`` will give anew.
        train_config: What the server's strategy will send with every model, as its train_config.
    """

    node_config: UserConfig
    run_config: UserConfig = {}  # noqa: RUF012
    train_config: UserConfig = {}  # noqa: RUF012


def prepare(app_folder: Path, node: Node, model: Path | None = None) -> None:
    """Compute and keep what a client requires.

    Args:
        app_folder: Folder of the Flower app.
        node: The client's.
        model: The federation's initial model, a safetensors file, if the requirement depends on it.
    """
    settings = _read_app(app_folder)
    context = Context(
        run_id=0, node_id=0, node_config=dict(node.node_config), state=RecordDict(),
        run_config=_run_config(settings, node.run_config),
    )  # fmt: skip
    content = RecordDict({"config": ConfigRecord({**node.train_config, keys.PREPARE: True})})
    if model is not None:
        content["arrays"] = _read_model(model)
    with _importable(app_folder):
        reply = _load(app_folder, settings)(_first_message(content), context)
    if reply.has_error():
        raise InputError(f"the app failed: {reply.error.reason}")


def _first_message(content: RecordDict) -> Message:
    """Return a message that no server sent."""
    metadata = Metadata(
        run_id=0, message_id="", src_node_id=0, dst_node_id=0, reply_to_message_id="", group_id="",
        created_at=time.time(), ttl=DEFAULT_TTL, message_type=MessageType.TRAIN,
    )  # fmt: skip
    return Message(content=content, metadata=metadata)  # type: ignore[call-overload, no-any-return]


def _read_app(folder: Path) -> dict[str, Any]:
    """Return the app's table of its pyproject.toml."""
    path = folder / "pyproject.toml"
    try:
        app = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["flwr"]["app"]
        return {"config": {}, **app, "clientapp": app["components"]["clientapp"]}
    except OSError as error:
        raise InputError(f"{folder} holds no Flower app: {path} can't be read") from error
    except (KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is not that of a Flower app: {error}") from error


def _run_config(settings: dict[str, Any], given: UserConfig) -> UserConfig:
    config = flatten_dict(settings["config"])
    for name in given:
        if name not in config:
            raise InputError(
                f"run config {name}: the app has no such setting{did_you_mean(name, config)}"
            )
    return {**config, **given}


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let an app's modules be imported, also by its handlers."""
    place = str(folder.resolve())
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)


def _load(folder: Path, settings: dict[str, Any]) -> ClientApp:
    module, _, name = settings["clientapp"].partition(":")
    try:
        app = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise InputError(
            f"{settings['clientapp']} of {folder} can't be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(app, ClientApp):
        raise InputError(f"{settings['clientapp']} of {folder} is no ClientApp")
    return app


def _read_model(path: Path) -> ArrayRecord:
    try:
        tensors = parse_tensors(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise InputError(f"--model {path} can't be read: {error}") from error
    return ArrayRecord({name: Array(array) for name, array in tensors.items()})
