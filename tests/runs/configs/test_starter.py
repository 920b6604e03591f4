"""The file to start from is the default run, in the settings' own words."""

import itertools
import tomllib

from maxfl.runs.configs.file import unused, validate
from maxfl.runs.configs.run import RunConfig
from maxfl.runs.configs.starter import starter_file
from maxfl.runs.grid import expand


def test_the_file_is_the_default_run():
    config = validate(tomllib.loads(starter_file()), "starter")
    written = config.model_dump(mode="json")
    hparams = {"temperature": 1.0, "epsilon": 0.001}
    assert written["algorithm"] == {"name": "maxfl", **hparams}
    default = RunConfig().model_dump(mode="json")
    assert written | {"algorithm": default["algorithm"]} == default
    assert unused(config) == []


def test_every_setting_has_a_comment_and_no_line_is_long():
    lines = starter_file().splitlines()
    assert max(map(len, lines)) <= 100
    for before, line in itertools.pairwise(lines):
        if "=" in line and not line.startswith("#"):
            assert before.startswith("#"), line


def test_what_is_commented_out_is_valid_too():
    text = starter_file()
    tail = text[text.index("# [sweep]") :].replace("# ", "")
    raw = tomllib.loads(text.replace("# start_round", "start_round") + tail)
    assert len(expand(raw, "starter").configs) == 10
