"""Rounds as plain data and as lines for people."""

import json

import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import Error, Message

from maxfl.flower import MaxFL
from maxfl.flower.round_log import format_round, from_plain, to_plain
from support.flower_nodes import START, Nodes, arrays, make_app
from support.flower_runs import federation, run

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


@pytest.mark.parametrize("temperature", ["auto", 1.0])
def test_rounds_survive_json(temperature):
    strategy = MaxFL(temperature=temperature, collect_losses=True, fraction_evaluate=1.0)
    nodes = federation()
    nodes.apps[12] = make_app(1.0, 2.0, maxfl_satisfied=7)
    strategy.start(nodes, arrays(START), num_rounds=2)
    for entry in strategy.rounds:
        assert repr(from_plain(json.loads(json.dumps(to_plain(entry))))) == repr(entry)
        line = format_round(entry)[0]
        words = "all weigh the same" if entry.number == 1 else "; T 3.25, s 2.17;"
        assert (words in line) is (temperature == "auto"), line


def test_reasons_are_one_short_line(tmp_path):
    def fails(message, context):  # noqa: ARG001
        return Message(Error(3, "a\nround 9: forged " + "x" * 10**6), reply_to=message)

    run(tmp_path / "run", Nodes(make_app(1.0, 2.0), make_app(1.0, 2.0), fails), rounds=2)
    lines = (tmp_path / "run" / "rounds.log").read_text().splitlines()
    assert [line[:7] for line in lines if not line.startswith("  ")] == ["round 1", "round 2"]
    assert max(map(len, lines)) < 400
