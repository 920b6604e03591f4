"""Every reason that checks give is of a known kind, and free text is of none."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.flower import MaxFL
from maxfl.flower.monitoring.reasons import KINDS, OTHER, kind_of
from maxfl.flower.round_log import Event
from support.flower_nodes import START, Nodes, arrays, make_app

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


@pytest.mark.parametrize(
    ("app", "kind"),
    [
        (make_app(1.0, 2.0, np.nan), "not-finite"),
        (make_app(1.0, 2.0, 1e9), "norm"),
        (make_app(1.0, 2.0, maxfl_weight=3.0), "weight"),
        (make_app(1.0, 2.0, maxfl_satisfied=7), "answers"),
        (make_app(1.0, 2.0, maxfl_near=7), "answers"),
        (None, "timeout"),
        (make_app(3.0, 2.0), "requirement-not-met"),
    ],
)
def test_the_reason_of_a_client(app, kind):
    strategy = MaxFL(decline_after=1, scale=1.0, fraction_evaluate=0.0)
    strategy.start(Nodes(*[make_app(1.0, 2.0)] * 2, app), arrays(START), num_rounds=2)
    events = strategy.rounds[-1].events
    assert {kind_of(event) for event in events} == {kind}


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("its arrays are called ['v']; expected ['w', 'b']", "arrays"),
        ("w is float64(3,); expected float32(3,)", "arrays"),
        ("w has 3 bytes; expected 12", "arrays"),
        ("2 array records and 1 metric records; expected one of each", "records"),
        ("its client runs maxfl 0.1: install the server's version there", "version"),
        ("evaluation: other metrics than most", "metrics"),
        ("evaluation: num-examples is -1.0; expected a number above 0", "metrics"),
        ("the loss function that this client gave to appeal_mod raised KeyError", "requirement"),
        ("secure aggregation: its sums are of another size", "secure-aggregation"),
        ("whatever somebody may write", OTHER),
    ],
)
def test_the_kind_of_a_reason(reason, kind):
    assert kind_of(Event.of(1, "rejected", reason)) == kind
    assert kind in {*KINDS, OTHER}
