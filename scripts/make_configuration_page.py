"""Write docs/configuration.md from the descriptions of the settings."""

import inspect
from pathlib import Path
from typing import Any

from maxfl.algorithms import ALGORITHMS
from maxfl.runs.configs.model import DEFAULT_MODEL, MODEL_CONFIGS, ModelSettings
from maxfl.runs.configs.run import RunConfig

PAGE = Path(__file__).parent.parent / "docs/configuration.md"
HEAD = """# Configuration

A run is a TOML file; `maxfl run FILE` trains it, `--set key=value` changes a setting. Every key has
a default, so an empty file is a run too. Unknown keys and wrong types are errors; settings that do
nothing beside the others are pointed at. Another `algorithm.name` or `model.name` on the command
line or in a sweep drops the settings that the file gives for its own; lists of a sweep are not
dropped, so give methods or models with different settings a table `[[sweep]]` each.

Data sets and partitions: [data.md](data.md). This page is made by
`python scripts/make_configuration_page.py`.

| key | default | meaning |
|---|---|---|
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


def page() -> str:
    """Return the whole page."""
    rows = []
    for name, field in RunConfig.model_fields.items():
        section = field.annotation
        if name == "model":
            rows += _model_rows()
        elif inspect.isclass(section) and hasattr(section, "model_fields"):
            rows += [_row(f"{name}.{k}", setting) for k, setting in section.model_fields.items()]
        else:
            rows.append(_row(name, field))
    for algorithm, factory in ALGORITHMS.items():
        lines = dict(_arguments(inspect.getdoc(factory) or ""))
        for key, parameter in inspect.signature(factory).parameters.items():
            meaning = f"{algorithm}: {lines[key]}"
            rows.append(f"| `algorithm.{key}` | `{parameter.default}` | {meaning} |")
    return HEAD + "\n".join(rows) + "\n" + TAIL


def _model_rows() -> list[str]:
    """Return what all models have, then what only some have, with their names."""
    names = ", ".join(f'`"{name}"`' for name in MODEL_CONFIGS)
    rows = [f'| `model.name` | `"{DEFAULT_MODEL}"` | the model ({names}) |']
    shared = {k: f for k, f in ModelSettings.model_fields.items() if k != "name"}
    rows += [_row(f"model.{key}", field) for key, field in shared.items()]
    return rows + [
        _row(f"model.{key}", field, f"{name}: ")
        for name, config in MODEL_CONFIGS.items()
        for key, field in config.model_fields.items()
        if key not in ModelSettings.model_fields
    ]


def _row(key: str, field: Any, before: str = "") -> str:
    default = field.default
    if isinstance(default, tuple):
        default = list(default)
    value = "" if default is None else f"`{default!r}`".replace("'", '"')
    choices = getattr(field.annotation, "__args__", ())
    words = [f'`"{c}"`' for c in choices if isinstance(c, str)]
    meaning = before + field.description + (f" ({', '.join(words)})" if words else "")
    return f"| `{key}` | {value} | {meaning} |"


def _arguments(docstring: str) -> list[tuple[str, str]]:
    """Return (name, meaning) from the Args section of a docstring."""
    _, _, section = docstring.partition("Args:\n")
    pairs = []
    for line in section.splitlines():
        name, colon, meaning = line.strip().partition(": ")
        if colon and name.isidentifier():
            pairs.append((name, meaning.rstrip(".")))
        elif pairs:
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]} {line.strip()}".rstrip("."))
    return pairs


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
