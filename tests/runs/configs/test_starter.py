"""The file to start from is the default run, in the settings' own words."""

import itertools
import tomllib

import maxfl
from maxfl.runs.configs.file import unused, validate
from maxfl.runs.configs.run import RunConfig
from maxfl.runs.configs.starter import starter_file
from maxfl.runs.grid import expand


def test_the_file_is_the_default_run():
    config = validate(tomllib.loads(starter_file()), "starter")
    written = config.model_dump(mode="json")
    assert written["algorithm"] == {"name": "maxfl-auto", **maxfl.maxfl_auto().hparams._asdict()}
    default = RunConfig().model_dump(mode="json")
    assert written | {"algorithm": default["algorithm"]} == default
    assert unused(config) == []


def test_every_setting_has_a_comment_and_no_line_is_long():
    lines = starter_file().splitlines()
    assert max(map(len, lines)) <= 100
    for before, line in itertools.pairwise(lines):
        if "=" in line and not line.startswith("#"):
            assert before.startswith("#"), line


def test_the_alternatives_are_valid():
    gone = ("source", "partition", "alpha", "clients", "unseen", "samples", "kind", "multiple")
    own = ("file", "client_column", "label_column", "encode", "missing", "kind", "metric", "value")
    lines = [line for line in starter_file().splitlines() if not line.startswith(gone)]
    for key in own:
        assert sum(line.startswith(f"# {key} = ") for line in lines) == 1
        lines = [line.removeprefix("# ") if line.startswith(f"# {key} = ") else line
                 for line in lines]  # fmt: skip
    config = validate(tomllib.loads("\n".join(lines)), "starter")
    assert unused(config) == []
    assert (config.data.source, config.data.partition) == ("table", "by-owner")
    assert (config.requirement.kind, config.requirement.value) == ("metric", 0.8)


def test_what_is_commented_out_is_valid_too():
    text = starter_file()
    tail = text[text.index("# [sweep]") :].replace("# ", "")
    for line in ("start_round", "[schedule]", "server = ", "server_end = "):
        assert text.count(f"# {line}") == 1
        text = text.replace(f"# {line}", line)
    configs = expand(tomllib.loads(text + tail), "starter").configs
    assert len(configs) == 10
    assert {config.algorithm.name for config in configs} == {"fedavg", "maxfl-auto"}
    assert {config.schedule.server for config in configs} == {"exponential"}
    assert configs[0].schedule.server_end == 0.18


def test_what_clients_judge_by_is_there():
    written = tomllib.loads(starter_file())["requirement"]
    assert {"judge", "judge_fraction", "local_lr"} <= written.keys()
