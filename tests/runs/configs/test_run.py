"""Settings and their defaults: every mistake named."""

import pytest

import maxfl
from maxfl.report.legacy import SETTINGS
from maxfl.runs.configs.file import override, validate
from maxfl.runs.configs.run import RunConfig
from maxfl.utils.errors import InputError
from support.small import MODEL, SMALL

TABLE = {"file": "t.csv", "label_column": "y"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"trainin": {}}, "trainin: unknown key; known here are seed, data"),
        ({"training": {"ronds": 5}}, "training.ronds: unknown key; known here are rounds"),
        ({"training": {"rounds": "many"}}, "training.rounds: .* integer .*many"),
        ({"training": {"rounds": 0}}, "training.rounds: .* greater than 0"),
        ({"training": {"rounds": "5"}}, "training.rounds: .* valid integer"),
        ({"training": {"local_lr": True}}, "training.local_lr: .* valid number"),
        ({"seed": True}, "seed: .* valid integer"),
        ({"training": {"local_lr": float("inf")}}, "training.local_lr: .*finite"),
        ({"data": {"partition": "magic"}}, "data.partition: .*'dirichlet', 'dirichlet-unequal'"),
        ({"data": {"source": "arrays"}}, "data: source = .arrays. needs `file`"),
        ({"data": {"source": "leaf-femnist"}}, "data: `path` and source = leaf-femnist or leaf-"),
        ({"data": {"source": "text", "file": "play.txt"}}, '`file` is for source = "arrays"'),
        ({"data": {"path": "leaf"}}, "data: `path` and source"),
        (
            {"data": {"source": "leaf-shakespeare", "path": "leaf", "partition": "iid"}},
            "samples that overlap within a role: partition",
        ),
        ({"data": {"source": "text", "path": "t", "role_pattern": "^A"}}, "data: .*has 0 groups"),
        ({"data": {"source": "text", "path": "t", "sequence_length": 0}}, "sequence_length: .*0"),
        ({"data": {"vocabulary": 2}}, "data.vocabulary: .*greater than or equal to 3"),
        ({"data": {"partition": "by-owner"}}, "needs source"),
        ({"data": {"file": "t.csv"}}, "data: a table needs `label_column`"),
        ({"data": {"source": "table", "label_column": "y"}}, 'data: source = "table" needs `file`'),
        ({"data": {"source": "digits", "file": "t.csv"}}, "remove `source`, since the"),
        ({"data": TABLE | {"partition": "by-owner"}}, "of a table needs `client_column`"),
        ({"data": TABLE | {"feature_columns": []}}, "data.feature_columns: .*at least 1 item"),
        (
            {"data": TABLE | {"feature_columns": ["a"], "drop_columns": ["b"]}},
            "the same thing twice",
        ),
        ({"data": TABLE | {"encode": "onehot"}}, "data.encode: .*'one-hot'"),
        ({"data": TABLE | {"missing": "median"}}, "data.missing: .*'drop-rows'"),
        ({"data": TABLE | {"label_column": 3}}, "data.label_column: expected the name of a column"),
        ({"data": TABLE | {"task": "ranking"}}, "data.task: .*'classification'"),
        ({"data": {"source": "synthetic"}}, "draws its clients"),
        ({"data": {"source": "sent140-stand-in", "partition": "iid"}}, "users with skewed labels"),
        ({"data": {"source": "sent140-stand-in", "samples": 49}}, "at least 50 .*raise `samples`"),
        (
            {"data": {"source": "sent140-stand-in", "partition": "dirichlet-unequal"}},
            "raise `min_samples`",
        ),
        ({"data": {"source": "mnist"}}, "data.source: .*'fashion-mnist'"),
        ({"algorithm": {"name": "fedsgd"}}, "algorithm.name"),
        (
            {"algorithm": {"name": "maxfl", "mu": 1}},
            "has no hyper-parameter `mu`; it has temperature",
        ),
        (
            {"algorithm": {"name": "fedavg", "multiple": 2, "quantile": 0.5}},
            "no hyper-parameter `multiple`, `quantile`; it has by_size; maxfl-auto has it",
        ),
        ({"algorithm": {"gain": "hot"}}, "`gain` = 'hot' is not a number"),
        ({"algorithm": {"temperature": 0.3}}, "maxfl, maxfl-annealed, .*have it"),
        ({"requirement": {"kind": "fixed"}}, "requirement: `loss` and kind"),
        ({"seed": -1}, "seed: .*greater than or equal to 0"),
    ],
)
def test_mistakes_are_named(settings, words):
    with pytest.raises(InputError, match=words):
        validate(settings, "file.toml")


def test_all_mistakes_are_listed_at_once():
    with pytest.raises(InputError, match="2 mistake") as caught:
        validate({"seed": -1, "model": {"hidden": [0]}}, "file.toml")
    assert "seed" in str(caught.value)
    assert "model.hidden.0" in str(caught.value)


@pytest.mark.parametrize("old", SETTINGS)
def test_a_setting_with_another_name_is_refused_with_its_new_one(old):
    section = old in ("adversary", "personal")
    with pytest.raises(InputError, match=f"{old} is called {SETTINGS[old]} now"):
        validate(override({}, old, {} if section else 1), "file.toml")


def test_the_defaults_are_the_engines():
    assert maxfl.Training(**dict(RunConfig().training)) == maxfl.Training()
    section, requirement = RunConfig().requirement, maxfl.solo()
    assert requirement.training == ((section.steps,), section.local_lr, (section.batch_size,))
    assert requirement.judging == (section.judge, section.judge_fraction)
    server = RunConfig().server
    assert (server.beta1, server.beta2, server.eps) == maxfl.server_optimizers.adam().hparams
    experiment = maxfl.Simulation(SMALL, MODEL, maxfl.maxfl()).session.experiment
    assert experiment.training == maxfl.Training()
