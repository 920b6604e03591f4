"""Folders of results as they are read, and those that can't be shown."""

import re
import shutil

import pytest

import maxfl
from maxfl.core.metrics import ACCURACY
from maxfl.report.source import SETTING_OF, _settings, read
from maxfl.report.write import write_report
from maxfl.runs.configs.run import RunConfig
from maxfl.runs.tables import to_parquet
from maxfl.utils.dicts import flatten
from maxfl.utils.errors import InputError
from maxfl.utils.files import write_json
from support.made_runs import REGRESSION, clients_table, make_history, settings_of, write_run
from support.small import simulation


def test_runs_that_differ_in_the_seed_are_one_method(folders):
    source = read(folders)
    assert source.cases == [""]
    assert source.methods("") == ["FedAvg", "MaxFL"]
    assert [c.seed for c in source.of("", "MaxFL")] == [0, 1]


def damaged(tmp_path, what):
    """A run folder with something wrong."""
    folder = write_run(tmp_path / "run", make_history(4, 2), settings_of("fedavg"))
    if what == "unfinished":
        (folder / "summary.json").unlink()
    elif what == "cut off":
        path = folder / "metrics.parquet"
        path.write_bytes(path.read_bytes()[:200])
    elif what == "no history":
        (folder / "history.parquet").unlink()
    elif what == "half of the clients":
        half = clients_table(make_history(4, 2)).slice(0, 3)
        (folder / "clients.parquet").write_bytes(to_parquet(half))
    elif what == "foreign":
        (folder / "experiment.json").unlink()
    elif what == "no JSON":
        (folder / "summary.json").write_text("{")
    elif what == "other JSON":
        write_json(folder / "experiment.json", ["a list"])
    return folder


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("unfinished", "is not finished (add --resume to go on); `maxfl watch"),
        ("cut off", "metrics.parquet can't be read"),
        ("no history", "history.parquet can't be read"),
        ("half of the clients", "do not fit: the folder is damaged"),
        ("foreign", "holds no run: experiment.json is not there"),
        ("no JSON", "summary.json can't be read"),
        ("other JSON", "was not written by maxfl"),
    ],
)
def test_broken_folders_are_refused(tmp_path, what, words):
    with pytest.raises(InputError, match=re.escape(words)):
        write_report([damaged(tmp_path, what)], tmp_path / "report")


def test_more_mistakes_are_refused(folders, tmp_path):
    with pytest.raises(InputError, match="is no folder"):
        read([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="named twice"):
        read([folders[0], folders[0]])
    copy = shutil.copytree(folders[0], tmp_path / "copy")
    with pytest.raises(InputError, match="FedAvg with seed 0 on the same data as"):
        read([folders[0], copy])


def test_an_unfinished_sweep_shows_what_is_done(tmp_path):
    write_run(tmp_path / "groups/0000", make_history(4, 2), settings_of("fedavg"))
    write_json(tmp_path / "experiment.json", {"configurations": {"0": {}, "1": {}}, "groups": {}})
    made = write_report([tmp_path], figures=False)
    assert made.missing == [f"Not finished, and so not shown: 1 of 2 configurations of {tmp_path}."]


def test_models_that_measure_different_things_are_not_put_together(tmp_path):
    runs = [
        write_run(tmp_path / name, make_history(4, 2, metrics=metrics), settings_of(name))
        for name, metrics in (("fedavg", (ACCURACY,)), ("maxfl", REGRESSION))
    ]
    words = r"fedavg measures accuracy \(higher is better, in per cent\) and \S+maxfl mae \(lower"
    with pytest.raises(InputError, match=words):
        write_report(runs, tmp_path / "report")


def test_a_run_from_python_says_the_same_as_one_with_settings():
    made = simulation(
        maxfl.fedavg(),
        local_optimizer=maxfl.local_optimizers.adamw(0.8, 0.9, 0.1, 0.2, clip_norm=3.0),
        local_schedule=maxfl.schedules.cosine(end=0.3, warmup=2, rounds=4),
        server_schedule=maxfl.schedules.linear(end=0.4, warmup=1, rounds=5),
    )
    adamw = {"optimizer": "adamw", "beta1": 0.8, "beta2": 0.9, "eps": 0.1, "weight_decay": 0.2,
             "clip_norm": 3.0}  # fmt: skip
    schedule = {
        "local": "cosine", "local_end": 0.3, "local_warmup": 2, "local_rounds": 4,
        "server": "linear", "server_end": 0.4, "server_warmup": 1, "server_rounds": 5,
    }  # fmt: skip
    config = RunConfig.model_validate({"local": adamw, "schedule": schedule})
    expected = flatten(config.model_dump(include={"local", "schedule"}))
    found = _settings(made.describe(), {}, {"values": {}}, 0, 1)
    assert {key: found[key] for key in SETTING_OF.values()} == expected
