"""From ``module:function`` to the function: of a module in the current folder, or installed."""

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from maxfl.runs.plugins.code import Code, code_of_module
from maxfl.runs.plugins.importing import import_module, importing_from, in_words, shown_path
from maxfl.utils.errors import InputError, did_you_mean

_LOCK = threading.RLock()
"""Sweeps resolve names from several threads; a module is imported by one of them."""
MADE = ("Algorithm", "Model", "Federation", "Dataset")
"""What own code makes, and is easily named instead of what makes it."""


@dataclass(frozen=True, eq=False)
class Own:
    """A function of the user's own code; the same one for as long as it is loaded.

    Attributes:
        target: ``module:function``.
        function: It.
        code: Digests of its code as it was imported.
    """

    target: str
    function: Callable[..., Any]
    code: Code


def is_target(name: object) -> bool:
    """Return whether a setting names own code, ``module:function``."""
    return isinstance(name, str) and ":" in name


def resolve(target: str) -> Callable[..., Any]:
    """Return the function that ``module:function`` names, or say why there is none."""
    return load(target).function


def load(target: str) -> Own:
    """Import own code, once for each folder that it may lie in."""
    with _LOCK:
        return _load(target, Path.cwd())


@lru_cache(maxsize=64)
def _load(target: str, folder: Path) -> Own:
    module_name, name = _parse(target)
    module = import_module(module_name, folder)
    function = _attribute(module, name)
    if not callable(function):
        kind = type(function).__name__
        returns = f" that returns the {kind}" if kind in MADE else ""
        raise InputError(f"{target} is no function but a {kind}: name a function{returns}")
    return Own(target, function, code_of_module(module))


def _parse(target: str) -> tuple[str, str]:
    """Return the names of a module and of a function in it."""
    module, _, name = target.partition(":")
    if module.endswith(".py"):
        raise InputError(f"{target!r}: leave the .py out, as {module[:-3]}:{name}")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        hint = ", with dots instead of slashes" if "/" in module else ""
        raise InputError(
            f"{target!r}: expected the names of a module and a function, as mymodule:mymethod{hint}"
        )
    return module, name


def _attribute(module: ModuleType, name: str) -> Any:
    """Return what a name, with dots inside classes, means in a module."""
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = [key for key, value in vars(found).items() if callable(value)]
            file = getattr(module, "__file__", None)
            place = f" ({shown_path(Path(file))})" if file else ""
            raise InputError(
                f"the module {module.__name__}{place} has no {name}{did_you_mean(part, known)}"
            )
        found = getattr(found, part)
    return found


def call(own: Own, *values: Any, **arguments: Any) -> Any:
    """Call own code, which may import what lies beside it; its errors say where they arose."""
    try:
        with importing_from(Path.cwd()):
            return own.function(*values, **arguments)
    except InputError:
        raise
    except Exception as error:
        raise in_words(f"{own.target} failed", error) from error


def signature(own: Own) -> inspect.Signature:
    """Return the signature of own code, or say that it has none."""
    try:
        return inspect.signature(own.function)
    except (TypeError, ValueError):
        raise InputError(
            f"{own.target} does not tell its parameters: write a Python function around it"
        ) from None
