"""From configurations to simulations: which share a program, and what they are."""

import runpy
from pathlib import Path

from maxfl.data.locate import find
from maxfl.data.registry import entry
from maxfl.runs.build import alike, build, group
from maxfl.runs.configs.file import read_toml, validate
from maxfl.runs.grid import expand

ROOT = Path(__file__).parents[2]


def test_configurations_that_share_a_program_are_grouped():
    raw = {"sweep": {"training": {"local_lr": [0.1, 0.2]}, "seed": [0, 1]}}
    by_seed = [g.indices for g in group(expand(raw, "s").configs)]
    assert by_seed == [[0, 2], [1, 3]], "each seed splits the data anew"
    raw = {"data": {"seed": 5}, "sweep": {"training": {"local_lr": [0.1, 0.2]}, "seed": [0, 1]}}
    assert [g.indices for g in group(expand(raw, "s").configs)] == [[0, 1, 2, 3]]
    raw = {"data": {"seed": 5}, "sweep": {"training": {"local_steps": [1, 2]}, "seed": [0, 1]}}
    assert [g.indices for g in group(expand(raw, "s").configs)] == [[0, 1, 2, 3]]
    raw = {"data": {"seed": 5}, "sweep": {"training": {"batch_size": [1, 2]}, "seed": [0, 1]}}
    apart = group(expand(raw, "s").configs, mask_batches=False)
    assert [g.indices for g in apart] == [[0, 1], [2, 3]]
    together = group(expand(raw, "s").configs, mask_batches=True)
    assert [g.indices for g in together] == [[0, 1, 2, 3]]
    assert build(together[0].configs).session.configurations == 4


def test_groups_of_one_program_are_alike():
    """They differ in the data's seed; one of a larger batch or more models takes more memory."""
    raw = {"sweep": {"seed": [0, 1], "training": {"batch_size": [8, 16]}}}
    groups = group(expand(raw, "s").configs)
    seeds = [[groups[g].configs[0].seed for g in queue] for queue in alike(groups)]
    assert seeds == [[0, 1], [0, 1]]
    raw = {"sweep": {"portfolio": {"models": [2, 8]}}}
    assert alike(group(expand(raw, "s").configs)) == [[0], [1]]


def test_attacks_aggregators_optimizers_and_finetuning_from_a_file():
    raw = {
        "data": {"seed": 0, "clients": 10, "unseen": 2, "samples": 20},
        "server": {"optimizer": "adam", "aggregator": "trimmed-mean", "clip_norm": 2.0},
        "attack": {"fraction": 0.2, "loss_inflation": 20.0, "collude": True},
        "personalization": {"finetune_steps": 3},
        "sweep": {
            "server": {"trim_fraction": [0.1, 0.3]},
            "attack": {"noise_std": [0.0, 0.1]},
            "algorithm": {"name": ["ditto"]},
        },
    }
    groups = group(expand(raw, "s").configs)
    assert [g.indices for g in groups] == [[0, 1, 2, 3]], "hyper-parameters share a program"
    described = build(groups[0].configs).describe()
    assert described["server_optimizer"] == {
        "kind": "adam", "beta1": [0.9] * 4, "beta2": [0.99] * 4, "eps": [1e-3] * 4,
    }  # fmt: skip
    assert described["aggregator"]["rule"] == "trimmed-mean"
    assert described["aggregator"]["clip_norm"] == [2.0] * 4
    assert described["aggregator"]["trim_fraction"] == [0.1, 0.1, 0.3, 0.3]
    assert described["attack"]["collude"]
    assert described["attack"]["noise_std"] == [0.0, 0.1, 0.0, 0.1]
    assert described["finetune_steps"] == [3] * 4


def test_every_example_is_valid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for script in ("make_own_data.py", "make_play.py"):
        runpy.run_path(str(ROOT / "examples" / script))
    examples = [*sorted((ROOT / "examples").glob("*.toml")), ROOT / "src/maxfl/cli/demo.toml"]
    assert len(examples) >= 3
    for path in examples:
        raw = read_toml(path)
        configs = expand(raw, str(path)).configs if "sweep" in raw else [validate(raw, str(path))]
        data = configs[0].data
        files = entry(data.source, data.part, data.vectors).files if data.file is None else ()
        if all(map(find, files)):  # where the full data sets are here
            build(configs[:1])
