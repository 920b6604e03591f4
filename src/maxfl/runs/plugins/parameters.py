"""The parameters of own code, by its signature; what they mean, by its docstring."""

import inspect
import json
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from maxfl.runs.plugins.resolve import Own, signature
from maxfl.utils.errors import InputError, did_you_mean, shorten

REQUIRED = inspect.Parameter.empty
UNNAMED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Parameter(NamedTuple):
    """A parameter of a function.

    Attributes:
        name: It.
        default: ``REQUIRED`` if there is none.
        meaning: From the docstring's section ``Args:``, "" if it says nothing.
    """

    name: str
    default: Any
    meaning: str

    @property
    def shown(self) -> str:
        """The name with its default, if it has one."""
        has_none = self.default is REQUIRED or self.default is None
        return self.name if has_none else f"{self.name} = {shown_value(self.default)}"


Parameters = tuple[Parameter, ...]


@lru_cache(maxsize=256)  # a sweep asks for every configuration
def parameters_of(function: Callable[..., Any], filled: tuple[str, ...] = ()) -> Parameters:
    """Return the parameters that a file can set, without those that are filled in."""
    meanings = arguments(inspect.getdoc(function) or "")
    return tuple(
        Parameter(name, given.default, meanings.get(name, ""))
        for name, given in inspect.signature(function).parameters.items()
        if given.kind not in UNNAMED and name not in filled
    )


@lru_cache(maxsize=256)
def own_parameters(own: Own, filled: tuple[str, ...] = ()) -> Parameters:
    """Return the parameters of own code that a file can set, or refuse some that it can't."""
    for name, given in signature(own).parameters.items():
        if given.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise InputError(
                f"{own.target} takes `{name}` by position only, and a file gives names: leave the "
                f"/ of its parameters out"
            )
    return parameters_of(own.function, filled)


def arguments(docstring: str) -> dict[str, str]:
    """Return the meanings of parameters from the section ``Args:`` of a docstring."""
    _, _, section = docstring.partition("Args:\n")
    found: dict[str, str] = {}
    last = None
    for line in section.split("\n\n")[0].splitlines():
        name, colon, meaning = line.strip().partition(": ")
        if colon and name.isidentifier():
            last, found[name] = name, meaning.rstrip(".")
        elif last is not None:
            found[last] = f"{found[last]} {line.strip()}".rstrip(".")
    return found


def one_line(function: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring as what the function makes, "" if it has none."""
    said = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
    made = said.removeprefix("Return ").removeprefix("Compute ").replace("``", "")
    is_name = not made.partition(" ")[0].islower()  # as pFedMe, which keeps its case
    return made if is_name else made[:1].upper() + made[1:]


def shown_value(value: Any) -> str:
    """Write a value as TOML has it."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return shorten(value)


def check_given(
    name: str,
    known: Collection[Parameter],
    given: Mapping[str, Any],
    what: str,
    elsewhere: Callable[[str], str] = lambda _: "",
) -> None:
    """Refuse settings that a function does not have, and the lack of those that it needs.

    ``elsewhere`` says of a name who else has it.
    """
    names = [parameter.name for parameter in known]
    unknown = [key for key in given if key not in names]
    if unknown:
        has = f"it has {', '.join(names)}" if names else "it has none"
        others = dict.fromkeys(elsewhere(key) or did_you_mean(key, names) for key in unknown)
        all_of_them = ", ".join(f"`{key}`" for key in unknown)
        raise InputError(f"{name} has no {what} {all_of_them}; {has}{''.join(others)}")
    for parameter in known:
        if parameter.default is REQUIRED and parameter.name not in given:
            raise InputError(
                f"{name} has no default for its {what} `{parameter.name}`: give a value here"
            )


def check_hparams(
    name: str,
    known: Collection[Parameter],
    given: Mapping[str, Any],
    elsewhere: Callable[[str], str] = lambda _: "",
) -> None:
    """Refuse hyper-parameters that a method lacks, or that are no numbers."""
    check_given(name, known, given, "hyper-parameter", elsewhere)
    for key, value in given.items():
        if not _is_number(value):
            raise InputError(f"`{key}` = {value!r} is not a number")
    for parameter in known:
        if parameter.name not in given and not _is_number(parameter.default):
            raise InputError(
                f"`{parameter.name}` of {name} has the default {shorten(parameter.default)}, which "
                f"is not a number: hyper-parameters are numbers, so that a sweep over them is one "
                f"program; make it a constant of the module, or two methods of two functions"
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_plain(given: Mapping[str, Any]) -> None:
    """Refuse values that are no numbers, words, booleans, or lists of them."""
    for key, value in given.items():
        if not _is_plain(value):
            raise InputError(
                f"`{key}` = {shorten(value)}: expected a number, a word, true or false, or a list "
                f"of them"
            )


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, bool | int | float | str)


def hashable(value: Any) -> Any:
    """Return lists as tuples, which functions with a cache take."""
    return tuple(map(hashable, value)) if isinstance(value, list | tuple) else value
