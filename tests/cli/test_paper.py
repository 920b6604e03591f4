"""`maxfl paper` as a person uses it."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maxfl.cli.app import app
from maxfl.data.download import UnavailableError
from maxfl.paper.catalogue import EXHIBITS
from maxfl.paper.results import read, reference_run
from maxfl.utils.errors import InputError


def command(*arguments):
    """What `maxfl paper` prints, in this process; a user's mistake is raised."""
    done = CliRunner().invoke(app, ["paper", *map(str, arguments)], color=False)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_the_list_names_everything():
    text = command("list")
    for name in (*EXHIBITS, "limit", "fig:incent", "fig:mean", "fig:mean2", "fig:lrtheo"):
        assert name in text


def test_reference_runs_are_shown_beside_the_papers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = command("show", "tab:testacc")
    assert "43.70 ± 0.02" in text, "the paper's figures stand as printed"
    assert "THE ORDER DIFFERS" in text
    assert "EMNIST: everybody left: MW-Fed in 3 of 3 seeds (round 11)" in text
    assert "STAND-IN" in command("show", "tab:unseen")
    assert "η_l = 0.05" in command("show", "sensitivity")
    assert "best, seen" in command("show", "limit")


def test_leads_are_shown_with_their_levels_and_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = " ".join(command("show", "when").split())
    assert "FedAvg → MaxFL auto: unseen: GM-Appeal" in text
    assert "below ρ, 2 to 0.8 times that of a model trained alone" in text
    study = EXHIBITS["when"].study
    one = read(reference_run("when"), "when")
    few = {part.label: one.summary["chosen"][part.label] for part in study.parts[:5]}
    cut = one._replace(summary=one.summary | {"chosen": few})
    monkeypatch.setattr("maxfl.cli.paper.read", lambda *_: cut)
    text = " ".join(command("show", "when").split())
    assert "Not in this run: 10 % in conflict, 20 % in conflict, 30 % in conflict, 40 %" in text
    assert "5 of 25 parts" in command("list")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "tab:nothing"), "NAME tab:nothing: there is no such name"),
        (("show", "nothing"), "there is no such name; maxfl paper list shows all"),
        (("run", "fig:men"), "NAME fig:men: there is no such name. Did you mean 'fig:mean'"),
        (
            ("show", "fig:mean"),
            "has no reference run: maxfl paper run fig:mean",
        ),
        (("show", "tab:testacc", "--kept"), "--kept is called --reference now"),
        (("show", "tab:testacc", "--out", "nowhere"), "nowhere holds no finished study"),
        (("show", "limit", "--out", "nowhere"), "nowhere holds no finished limit"),
        (
            ("run", "tab:testacc", "--part", "MNIST"),
            "--part = 'MNIST': expected one of FMNIST, EMNIST",
        ),
        (("run", "fig:mean", "--seeds", 2), "--seeds does nothing for fig:mean"),
        (("run", "limit", "--part", "FMNIST"), "--part does nothing for limit"),
        (("run", "tab:testacc", "--out", "file"), "file is a file: name a new folder (--out)"),
    ],
)
def test_mistakes_are_told(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(InputError, match=re.escape(words)):
        command(*arguments)


def test_a_study_without_any_run_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("maxfl.cli.paper.reference_run", lambda study: tmp_path / study)
    with pytest.raises(InputError, match="no finished run of the study synthetic is in runs/paper"):
        command("show", "fig:syn")


def test_missing_data_are_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("MAXFL_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr("maxfl.data.registry.DEBIAN", str(tmp_path), raising=False)
    monkeypatch.setattr("maxfl.data.locate.fetch", unreachable)
    with pytest.raises(InputError, match="is not here"):
        command("run", "tab:testacc", "--part", "EMNIST")


def unreachable(*_, **__):
    raise UnavailableError("no network")


def test_theory_runs_from_here_too(tmp_path):
    assert "q" in command("run", "fig:incent", "--out", tmp_path)
    assert list(tmp_path.glob("*.png"))
