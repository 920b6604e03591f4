"""Write docs/configuration.md from the descriptions of the settings."""

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from maxfl.algorithms import ALGORITHMS
from maxfl.models.registry import MODELS
from maxfl.runs.configs.algorithm import AlgorithmConfig
from maxfl.runs.configs.model import DEFAULT_MODEL, MODEL_CONFIGS, ModelSettings
from maxfl.runs.configs.run import RunConfig
from maxfl.runs.plugins.parameters import one_line, parameters_of, shown_value

PAGE = Path(__file__).parent.parent / "docs/configuration.md"
HEAD = """# Configuration

A run is a TOML file; `maxfl run FILE` trains it, `--set key=value` changes a setting, and
`maxfl init` writes a file to start from. Every key has a default, so an empty file is a run too.
Unknown keys and wrong types are errors; settings that do nothing beside the others are pointed at.
Another `algorithm.name` or `model.name` on the command line or in a sweep drops the settings that
the file gives for its own; lists of a sweep are not dropped, so give methods or models with
different settings a table `[[sweep]]` each.

Data sets and partitions: [data.md](data.md). Methods, models, losses and data of your own:
[own-code.md](own-code.md). All names with a line each: `maxfl list`. This page is made by
`python scripts/make_configuration_page.py`.
"""
TAIL = """
## Sweeps

A table `[sweep]` holds lists: `maxfl sweep FILE` runs every combination of them. With several
tables `[[sweep]]`, the combinations of each. `--over "key=[...]"` adds a list on the command line.

Configurations that differ only in numbers (learning rates, a method's hyper-parameters, the
requirement's `multiple` or `loss`, `participation.start_round` and `.client_dropout`, and, where
`data.seed` is given, `seed`) run together as one compiled program. Others run one after another,
and so do those of a federation on disk.

Examples: [opt-out.toml](../examples/opt-out.toml), [clusters.toml](../examples/clusters.toml),
[sweep.toml](../examples/sweep.toml), [own-data.toml](../examples/own-data.toml),
[byzantine.toml](../examples/byzantine.toml),
[tweets-stand-in.toml](../examples/tweets-stand-in.toml), [large.toml](../examples/large.toml),
[characters-by-role.toml](../examples/characters-by-role.toml),
[cnn-emnist.toml](../examples/cnn-emnist.toml), and the demo itself,
[demo.toml](../src/maxfl/cli/demo.toml). From Python:
[regression_hospitals.py](../examples/regression_hospitals.py).
"""
COLUMNS = ["| key | default | meaning |", "|---|---|---|"]


def page() -> str:
    """Return the whole page."""
    sections = [_section("The run", "", [_row("seed", RunConfig.model_fields["seed"])])]
    for name, field in RunConfig.model_fields.items():
        config = type(field.default)
        if name == "model":
            sections += [_models(), *map(_model, MODEL_CONFIGS)]
        elif name == "algorithm":
            sections += [_methods(), *map(_method, ALGORITHMS)]
        elif issubclass(config, BaseModel):
            rows = [_row(f"{name}.{k}", setting) for k, setting in config.model_fields.items()]
            sections.append(_section(f"`[{name}]`", inspect.getdoc(config) or "", rows))
    return HEAD + "".join(sections) + TAIL


def _section(title: str, words: str, rows: Iterable[str], level: int = 2) -> str:
    """Write a heading, some words, and a table of settings if there are any."""
    table = [*COLUMNS, *rows]
    parts = [f"{'#' * level} {title}", words, "\n".join(table) if len(table) > 2 else ""]
    return "\n" + "\n\n".join(part for part in parts if part) + "\n"


def _models() -> str:
    names = _words(MODEL_CONFIGS)
    said = f"the model ({names}); your own as `module:function`"
    rows = [f'| `model.name` | `"{DEFAULT_MODEL}"` | {said} |']
    shared = {k: f for k, f in ModelSettings.model_fields.items() if k != "name"}
    rows += [_row(f"model.{key}", field) for key, field in shared.items()]
    return _section("`[model]`", "The model, by name; all have these settings.", rows)


def _model(name: str) -> str:
    config = MODEL_CONFIGS[name]
    rows = [
        _row(f"model.{key}", field)
        for key, field in config.model_fields.items()
        if key not in ModelSettings.model_fields
    ]
    words = f"{inspect.getdoc(config)}{_cited(MODELS[name].factory)}"
    return _section(f'`model.name = "{name}"`', words, rows, 3)


def _methods() -> str:
    row = _row("algorithm.name", AlgorithmConfig.model_fields["name"])
    words = "The method, by name, and its hyper-parameters: those of each are below."
    return _section("`[algorithm]`", words, [row])


def _method(name: str) -> str:
    factory = ALGORITHMS[name]
    rows = [
        f"| `algorithm.{p.name}` | `{shown_value(p.default)}` | {p.meaning} |"
        for p in parameters_of(factory)
    ]
    words = f"{one_line(factory)}{_cited(factory)}"
    none = "" if rows else " It has no hyper-parameters."
    return _section(f'`algorithm.name = "{name}"`', words + none, rows, 3)


CITATION = re.compile(r".*?\b(?:19|20)\d\d\b.*?(?=\.(?:\s+[A-Z]|$)|[:;])")
"""Up to the end of the sentence that has a year."""


def _cited(factory: Any) -> str:
    """Return the citation in a module's docstring, "" if there is none."""
    text = inspect.getdoc(inspect.getmodule(factory)) or ""
    found = [CITATION.match(" ".join(p.split())) for p in text.split("\n\n")[1:]]
    return next((f" {match[0]}." for match in found if match), "")


def _words(names: Iterable[str]) -> str:
    return ", ".join(f'`"{name}"`' for name in names)


def _row(key: str, field: FieldInfo) -> str:
    default = field.default
    if isinstance(default, BaseModel):
        default = None
    value = "" if default is None else f"`{shown_value(default)}`"
    choices = getattr(field.annotation, "__args__", ())
    words = _words(choice for choice in choices if isinstance(choice, str))
    meaning = f"{field.description}{f' ({words})' if words else ''}"
    return f"| `{key}` | {value} | {meaning} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
