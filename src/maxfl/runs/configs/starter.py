"""A file to start from: the settings that are changed most, at their defaults, with their meaning.

Values and words come from the settings themselves, so that the file can't say anything else.
"""

import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from maxfl.runs.configs.algorithm import AlgorithmConfig, hparams_of
from maxfl.runs.configs.model import MODEL_CONFIGS
from maxfl.runs.configs.run import RunConfig
from maxfl.runs.plugins.parameters import shown_value

WIDTH = 96
MOST_USED: dict[str, tuple[str, ...]] = {
    "data": ("source", "partition", "alpha", "clients", "unseen", "samples", "train_fraction"),
    "model": ("name", "hidden", "dropout"),
    "training": ("rounds", "cohort", "local_steps", "batch_size", "local_lr", "server_lr"),
    "requirement": ("kind", "multiple", "steps", "local_lr", "judge", "judge_fraction"),
    "participation": ("rule", "start_round"),
}
"""The settings of each table that most files change."""
IDLE = {"start_round"}
"""Those that do nothing at the defaults of the others: written down, but commented out."""
ALTERNATIVES = {
    "data": """
# Or a table of your own. If it has a column that says whose each row is, remove source, partition,
# alpha, clients, unseen and samples above; without client_column, only source.
# file = "hospitals.csv"
# client_column = "hospital"
# label_column = "died"
# How text becomes numbers (one-hot, ordinal), and what to do about missing values (drop-rows, mean,
# zero); without these two lines, both are refused.
# encode = "one-hot"
# missing = "mean"
""",
    "training": """
# Steps of the server that shrink over the rounds, for any method; by default they do not.
# [schedule]
# server = "exponential"
# server_end = 0.18
""",
    "requirement": """
# Or a value of a metric that the model must reach; then remove kind and multiple above.
# kind = "metric"
# metric = "accuracy"
# value = 0.8
""",
}
"""What may be put in place of a table's defaults, commented out."""
HEAD = """\
# A run: maxfl run FILE trains it, and maxfl report FOLDER shows what came out. All values here are
# the defaults, so any line may go. All names: maxfl list. All settings:
# https://maxfl.github.io/maxfl/configuration.html
"""
TAIL = """
# Every combination of some lists: maxfl sweep FILE. Remove the signs # to try it.
# [sweep]
# algorithm.name = ["fedavg", "maxfl-auto"]
# seed = [0, 1, 2, 3, 4]
"""


def starter_file() -> str:
    """Return the content of a TOML file that is the default run."""
    seed = "\n".join(_setting("seed", RunConfig.model_fields["seed"]))
    tables = [_table(name) for name in MOST_USED]
    tables.insert(3, _algorithm())
    return "\n\n".join([HEAD + "\n" + seed, *tables]) + "\n" + TAIL


def _table(name: str) -> str:
    default = getattr(RunConfig(), name)
    fields = type(default).model_fields
    lines = [line for key in MOST_USED[name] for line in _setting(key, fields[key])]
    if name == "model":
        lines[:1] = _comment(f"the model ({', '.join(MODEL_CONFIGS)}); your own as module:function")
    return "\n".join([f"[{name}]", *lines]) + ALTERNATIVES.get(name, "").rstrip()


def _algorithm() -> str:
    config = AlgorithmConfig()
    lines = [*_setting("name", AlgorithmConfig.model_fields["name"])]
    for parameter in hparams_of(config.name):
        lines += [*_comment(parameter.meaning), f"{parameter.name} = {parameter.default}"]
    return "\n".join(["[algorithm]", *lines])


def _setting(key: str, field: FieldInfo) -> Iterator[str]:
    """Yield a comment and the line of a setting at its default."""
    choices = [word for word in getattr(field.annotation, "__args__", ()) if isinstance(word, str)]
    words = f" ({', '.join(choices)})" if len(choices) > 1 else ""
    yield from _comment(f"{field.description or key}{words}")
    yield f"{'# ' if key in IDLE else ''}{key} = {_value(field.default)}"


def _comment(words: str) -> list[str]:
    text = words.replace("`", "")
    return textwrap.wrap(
        text, WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False
    )


def _value(default: Any) -> str:
    return shown_value(list(default) if isinstance(default, tuple) else default)
