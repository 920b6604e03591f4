"""A run as a TOML file: settings on the command line, and those that do nothing."""

import numpy as np
import pytest

from maxfl.runs.configs.file import (
    override,
    override_all,
    parse_setting,
    read_toml,
    unused,
    validate,
)
from maxfl.utils.errors import InputError


def test_settings_on_the_command_line():
    assert parse_setting("training.rounds=50") == ("training.rounds", 50)
    assert parse_setting("algorithm.name=fedavg") == ("algorithm.name", "fedavg")
    assert parse_setting("data.role_pattern= ([A-Z]+): ") == ("data.role_pattern", "([A-Z]+): ")
    assert parse_setting('data.partition="iid"') == ("data.partition", "iid")
    assert parse_setting("model.hidden=[8, 4]") == ("model.hidden", [8, 4])
    with pytest.raises(InputError, match="expected key=value"):
        parse_setting("rounds")
    before = {"a": {"b": 1}}
    assert override(before, "a.c.d", 2) == {"a": {"b": 1, "c": {"d": 2}}}
    assert before == {"a": {"b": 1}}
    with pytest.raises(InputError, match="a is a value, not a table"):
        override({"a": 1}, "a.b", 2)


def test_another_method_starts_with_its_own_numbers():
    raw = {"algorithm": {"name": "maxfl", "temperature": 0.3}}
    assert override_all(raw, {"algorithm.by_size": 1.0, "algorithm.name": "fedavg"}) == {
        "algorithm": {"name": "fedavg", "by_size": 1.0}
    }
    assert override_all(raw, {"algorithm.name": "maxfl"}) == raw
    given = {"algorithm": {"gain": 0.3, "by_size": 1.0, "typo": 2}}
    assert override_all(given, {"algorithm.name": "fedavg"}) == {
        "algorithm": {"name": "fedavg", "by_size": 1.0, "typo": 2}
    }


def test_settings_that_do_nothing_are_pointed_at():
    used = {
        "data": {"alpha": 0.1, "samples": 10},
        "participation": {"rule": "decline", "start_round": 3},
    }
    assert unused(validate(used, "file")) == []
    raw = {
        "data": {"partition": "iid", "alpha": 0.1, "clusters": 2},
        "participation": {"start_round": 3},
        "requirement": {"kind": "fixed", "loss": 1.0, "multiple": 2.0},
    }
    words = " ".join(unused(validate(raw, "file")))
    for key in ("data.alpha", "data.clusters", "participation.start_round", "requirement.multiple"):
        assert f"{key} does nothing here" in words


def test_settings_of_other_sources_are_pointed_at():
    play = {"source": "text", "path": "play.txt", "clients": 5}
    assert unused(validate({"data": play}, "file")) == []
    assert validate({"data": play}, "file").data.partition == "by-owner"
    raw = {**play, "role_pattern": "^(A)", "vocabulary": 5}
    words = " ".join(unused(validate({"data": raw}, "file")))
    for key in ("data.clients", "data.vocabulary"):
        assert f"{key} does nothing here" in words
    words = " ".join(unused(validate({"data": {"sequence_length": 5, "role_pattern": "(A)"}}, "f")))
    for key in ("data.sequence_length", "data.role_pattern"):
        assert f"{key} does nothing here" in words


def test_settings_of_tables_are_pointed_at():
    table = {"file": "t.csv", "label_column": "y", "client_column": "who", "split_column": "part"}
    config = validate({"data": table}, "file")
    assert (config.data.source, config.data.partition, config.data.unseen) == (
        "table",
        "by-owner",
        0,
    )
    assert unused(config) == []
    assert validate({"data": {"file": "t.npz"}}, "file").data.source == "arrays"
    words = " ".join(unused(validate({"data": {**table, "train_fraction": 0.5, "clients": 3}}, "")))
    for key in ("data.train_fraction", "data.clients"):
        assert f"{key} does nothing here" in words
    words = " ".join(unused(validate({"data": {**table, "partition": "iid"}}, "file")))
    assert "data.split_column does nothing here: clients are not the table's own" in words
    words = " ".join(unused(validate({"data": {"client_column": "who", "encode": "one-hot"}}, "f")))
    for key in ("data.client_column", "data.encode"):
        assert f"{key} does nothing here: the data are no table" in words
    written = {**table, "source": "disk", "folder": "big"}
    (words,) = unused(validate({"data": written}, "file"))
    assert "is as it was written, whatever data.file" in words


def saved(path, **more):
    """Return settings of a file of six samples, with more arrays."""
    np.savez(path, x=np.zeros((6, 2)), y=np.arange(6) % 2, **more)
    return {"data": {"file": str(path)}}


def test_arrays_that_name_their_clients_keep_them(tmp_path):
    parts = ["train", "test"] * 3
    raw = saved(tmp_path / "own.npz", client=np.repeat([3, 7], 3), part=parts)
    config = validate(raw, "file")
    assert (config.data.partition, config.data.unseen) == ("by-owner", 0)
    assert unused(config) == []
    chosen = {**raw["data"], "unseen": 1, "train_fraction": 0.5}
    config = validate({"data": chosen}, "file")
    assert config.data.unseen == 1
    (words,) = unused(config)
    assert "data.train_fraction does nothing here: the array part says" in words
    plain = validate(saved(tmp_path / "plain.npz"), "file")
    assert (plain.data.partition, plain.data.unseen) == ("dirichlet", 50)
    assert unused(plain) == []


def test_arrays_that_drawn_clients_do_not_heed_are_pointed_at(tmp_path):
    parts = ["train", "test"] * 3
    raw = saved(tmp_path / "own.npz", client=np.repeat([3, 7], 3), part=parts)
    (words,) = unused(validate({"data": {**raw["data"], "partition": "iid"}}, "file"))
    assert words.startswith("data.file: its arrays client and part do nothing here: data.partition")
    assert 'also those that are marked as test; choose "by-owner" to keep' in words
    (words,) = unused(validate(saved(tmp_path / "parts.npz", part=parts), "file"))
    assert "its array part does nothing here" in words
    assert "add an array client to keep" in words
    raw = saved(tmp_path / "clients.npz", client=np.repeat([3, 7], 3))
    (words,) = unused(validate({"data": {**raw["data"], "partition": "iid"}}, "file"))
    assert "splits their samples anew; choose" in words


def test_files_that_can_not_be_read(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        read_toml(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[data\n")
    with pytest.raises(InputError, match="not valid TOML"):
        read_toml(broken)


def test_hyperparameters_that_do_nothing_are_pointed_at():
    raw = {"attack": {"noise_std": 1.0}, "server": {"trim_fraction": 0.1, "beta2": 0.5}}
    assert [note.split()[0] for note in unused(validate(raw, "f"))] == [
        "attack.noise_std", "server.beta2", "server.trim_fraction",
    ]  # fmt: skip


def test_a_warm_up_that_never_ends_is_noted():
    raw = {"training": {"rounds": 5}, "schedule": {"local_warmup": 5, "server_warmup": 4}}
    (note,) = unused(validate(raw, "f"))
    assert note == (
        "training.local_lr is never reached: schedule.local_warmup = 5, and there are 5 rounds"
    )
