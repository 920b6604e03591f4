"""Who weighed how much in which round."""

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.core import appeal
from maxfl.flower import Privacy
from support.flower_nodes import Nodes, make_app
from support.flower_runs import federation, run

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def rows(folder):
    return pq.read_table(folder / "weights.parquet").to_pylist()


def test_weights_and_shares_worked_by_hand(tmp_path):
    nodes = Nodes(make_app(1.0, 2.0), make_app(3.0, 2.0), make_app(9.0, 2.0))
    run(tmp_path / "run", nodes, rounds=2, temperature=1.0, decline_after=1, min_participants=0)
    first, second = rows(tmp_path / "run")[:3], rows(tmp_path / "run")[3:]
    q = [float(appeal.weight(loss, 2.0)) for loss in (1.0, 3.0, 9.0)]
    assert [row["node"] for row in first] == ["11", "12", "13"]
    assert [row["satisfied"] for row in first] == [True, False, False]
    np.testing.assert_allclose([row["weight"] for row in first], q, rtol=1e-6)
    np.testing.assert_allclose([row["share"] for row in first], np.divide(q, sum(q)), rtol=1e-6)
    # The others declined.
    assert [(row["round"], row["node"], row["share"]) for row in second] == [(2, "11", 1.0)]
    assert set(first[0]) == {"round", "node", "client", "weight", "satisfied", "share"}


def test_one_who_observes_weighs_by_samples(tmp_path):
    run(tmp_path / "run", federation(), rounds=1, observe_only=True)
    shares = [row["share"] for row in rows(tmp_path / "run")]
    np.testing.assert_allclose(shares, [10 / 60, 20 / 60, 30 / 60], rtol=1e-6)


def test_without_a_step_nobody_has_a_share(tmp_path):
    run(tmp_path / "run", federation(), rounds=1, min_replies=5)
    assert [row["share"] for row in rows(tmp_path / "run")] == [0.0] * 3


def test_samples_are_not_kept_for_it(tmp_path):
    run(tmp_path / "run", Nodes(*[make_app(1.0, 2.0, examples=1234.0)] * 2), rounds=1)
    assert "1234" not in (tmp_path / "run" / "rounds.jsonl").read_text()


def test_with_privacy_or_without_audit_nobody_is_named(tmp_path):
    pytest.importorskip("dp_accounting", reason="dp-accounting not installed")
    privacy = Privacy(clip=1.0, noise_multiplier=1e-3)
    run(tmp_path / "private", federation(), rounds=1, privacy=privacy, scale=0.5,
        fraction_evaluate=0.0)  # fmt: skip
    run(tmp_path / "not", federation(), rounds=1, audit=False)
    for name in ("private", "not"):
        assert not (tmp_path / name / "weights.parquet").exists()
        assert '"11"' not in (tmp_path / name / "rounds.jsonl").read_text()
        assert ", 11, " not in (tmp_path / name / "rounds.jsonl").read_text()
