"""A federation that stands still says so, everywhere, and what to do."""

import json

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.flower import MaxFL
from maxfl.flower import strategy as strategy_module
from maxfl.flower.monitoring import monitor as monitor_module
from maxfl.flower.monitoring.stall import stall_of
from maxfl.report.write import write_report
from maxfl.runs.watch import read_status
from support.browser import Page, browser
from support.flower_nodes import START, Nodes, arrays, make_app
from support.flower_runs import federation, run, same_results, stopped

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def nobody(size=3):
    """Clients that no model satisfies."""
    return Nodes(*[make_app(3.0, 2.0, 0.1)] * size)


@pytest.fixture
def said(monkeypatch):
    """All that is said at the level of a warning."""
    words = []

    def log(level, text, *given):
        words.append((level, text % given if given else text))

    for module in (monitor_module, strategy_module):
        monkeypatch.setattr(module, "log", log)
    return words


def test_where_all_decline_for_good_everything_says_so(tmp_path, said):
    nodes = nobody()
    options = {"decline_after": 1, "min_participants": 0}
    stopped(nodes, tmp_path / "run", 7, **options)  # in the fourth round
    (seen,) = read_status(tmp_path / "run").warnings
    assert "nobody participated from round 2 on, for 2 rounds" in seen
    run(tmp_path / "run", nodes, resume=True, **options)
    stalls = [words for level, words in said if level == 30 and words.startswith("STALLED")]
    assert [words.split(", ")[1] for words in stalls] == [
        "for 2 rounds", "for 3 rounds", "for 3 rounds"
    ]  # fmt: skip
    assert said[-1][1] == stalls[-1]  # the last line too
    (entry,) = json.loads((tmp_path / "run" / "summary.json").read_text())["configurations"]
    assert entry["stalled_from_round"] == 2
    assert [warning["kind"] for warning in entry["warnings"]] == ["everybody-left"]
    page = (write_report([tmp_path / "run"], figures=False).folder / "report.html").read_text()
    card = (tmp_path / "run" / "model-card.md").read_text()
    for place in (stalls[-1], page, card, *read_status(tmp_path / "run").warnings):
        assert "Set min_participants (2, say)" in place
        assert "decline later (decline_after)" in place


def test_by_default_it_does_not_come_to_that():
    strategy = MaxFL(decline_after=1)
    strategy.start(nobody(), arrays(START), num_rounds=6)
    assert [entry.counts.participated for entry in strategy.rounds] == [3, 0, 3, 0, 3, 0]
    assert stall_of(strategy.rounds) is None


def test_one_participant_is_too_few_by_default():
    nodes = Nodes(make_app(1.0, 2.0), make_app(3.0, 2.0), make_app(3.0, 2.0))
    strategy = MaxFL(decline_after=1)
    strategy.start(nodes, arrays(START), num_rounds=4)
    assert [entry.counts.participated for entry in strategy.rounds] == [3, 1, 3, 1]


def test_nobody_who_answers_is_a_stall_with_another_remedy():
    strategy = MaxFL(fraction_evaluate=0.0)
    strategy.start(Nodes(None, make_app(1.0, 2.0, np.nan)), arrays(START), num_rounds=2)
    text = stall_of(strategy.rounds).text
    assert "1 failed and 1 replies were rejected" in text
    assert "rounds.log says why" in text
    assert "min_participants" not in text


def test_a_folder_of_the_old_default_goes_on_by_it(tmp_path):
    """It was 0, and is noted as such."""
    run(tmp_path / "whole", nobody(), decline_after=1, min_participants=0)
    nodes = nobody()
    stopped(nodes, tmp_path / "cut", 3, decline_after=1, min_participants=0)
    run(tmp_path / "cut", nodes, decline_after=1, resume=True)
    same_results(tmp_path / "cut", tmp_path / "whole")


@pytest.mark.parametrize("collect_losses", [True, False])
def test_a_page_has_nothing_of_a_simulation(tmp_path, collect_losses):
    run(tmp_path / "run", federation(), decline_after=1, collect_losses=collect_losses)
    made = write_report([tmp_path / "run"], figures=False)
    with browser() as running:
        opened = Page(running, made.folder / "report.html", 1180)
        opened.page.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
        text = opened.page.inner_text("body")
        assert not opened.complaints
    for word in ("seed", "seen", "unseen", "trained alone", "n/a", "Methods compared", "labels"):
        assert word not in text, word
    assert ("Every client" in text) is collect_losses
    assert "not in this page" not in text
    assert "GM-Appeal" in text
