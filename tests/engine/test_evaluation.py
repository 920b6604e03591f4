"""One model on all clients: chunks of samples do not matter."""

import maxfl
from maxfl.engine import session
from maxfl.engine.layout import EvalBatch
from support.compare import assert_same
from support.small import simulate, train


def test_evaluation_does_not_depend_on_its_chunks(monkeypatch):
    options = {"algorithm": maxfl.maxfl(), "participation": maxfl.opt_out(3)}
    whole = train(**options)
    monkeypatch.setattr(session, "choose_eval_batch", lambda *_: EvalBatch(7, 7))
    assert_same(simulate(**options), whole, 1e-5)
