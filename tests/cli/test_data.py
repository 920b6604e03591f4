"""``maxfl data``: what is listed, fetched and shown, and what is said of mistakes."""

import csv

import pytest

from maxfl.cli import terminal
from maxfl.cli.app import app
from maxfl.utils.errors import InputError
from support.commands import ROOT, small


def test_data_are_listed_and_shown(tmp_path, maxfl):
    text = maxfl("data", "list", "--dir", tmp_path)
    for words in (
        "fashion-mnist",
        "emnist-byclass",
        "STAND-IN",
        "leaf-reddit",
        "data.path",
        "maxfl data fetch NAME",
    ):
        assert words in " ".join(text.split())
    assert "needs no files" in maxfl("data", "fetch", "digits")
    assert "preprocess.sh of https://github.com/" in maxfl("data", "fetch", "leaf-femnist", code=2)
    assert "Did you mean 'emnist-mnist'?" in maxfl("data", "fetch", "emnist-mnst", code=2)
    figure = tmp_path / "new" / "split.png"
    options = small("data.partition=shards", "data.flipped_fraction=0.2", "data.flip=shift")
    text = maxfl("data", "show", "examples/opt-out.toml", "--out", figure, *options)
    seen = next(line for line in text.splitlines() if line.strip().startswith("seen"))
    assert seen.split()[:5] == ["seen", "6", "9", "3", "8"]
    assert "judging" in text
    assert figure.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(figure.with_suffix(".csv").read_text().splitlines()))
    assert [row["seen"] for row in rows] == ["1"] * 6 + ["0"] * 4
    assert sum(int(row["flipped"]) for row in rows) == 2
    for row in rows:
        sizes = [row[f"{part}_samples"] for part in ("train", "judging", "test")]
        assert sizes == ["9", "3", "8"]
        assert sum(int(n) for name, n in row.items() if name.startswith("label ")) == 20


def test_heads_are_whole_in_a_narrow_terminal(tmp_path, maxfl, monkeypatch):
    monkeypatch.setattr(terminal.console, "width", 80)
    options = small("data.partition=dirichlet-unequal", "data.clients=20")
    text = maxfl("data", "show", "examples/opt-out.toml", "--out", tmp_path / "s.png", *options)
    heads = "clients number training judging test labels* flipped Byzantine"
    assert heads in " ".join(text.split())
    assert "…" not in text
    assert "median" in text


def test_what_data_commands_say_of_mistakes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    show = ["data", "show", "examples/sweep.toml", "--out"]
    with pytest.raises(InputError, match=r"ending of --out = '\.foo': expected one of"):
        app([*show, str(tmp_path / "x.foo")], standalone_mode=False)
    app([*show, str(tmp_path / "x.svg")], standalone_mode=False)
    assert "shown without the table [sweep]" in capsys.readouterr().out
    (tmp_path / "glove.6B.zip").write_bytes(b"PK")
    app(["data", "list", "--dir", str(tmp_path)], standalone_mode=False)
    text = capsys.readouterr().out
    assert "damaged" in text
    assert "maxfl data fetch NAME" in text
    with pytest.raises(InputError, match="there is no such folder"):
        app(["data", "list", "--dir", str(tmp_path / "none")], standalone_mode=False)
