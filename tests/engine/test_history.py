"""What a history says: readings of appeal, means, and who participated when."""

import numpy as np
import pytest

import maxfl
from maxfl.engine.history import READINGS
from support import oracle
from support.small import PAIR, SMALL, every_third, train


@pytest.fixture(scope="module")
def history():
    """Two configurations, evaluated after every third round."""
    return train(**every_third(*PAIR))


def test_three_readings_of_appeal(history):
    evaluation, thresholds = history.evaluation, history.thresholds
    pairs = {
        "test": (evaluation.test_loss, thresholds.test),
        "judging": (evaluation.judging_loss, thresholds.judging),
        "literal": (evaluation.test_loss, thresholds.judging),
    }
    assert pairs.keys() == READINGS.keys()
    for reading, (loss, threshold) in pairs.items():
        for c in range(2):
            seen = slice(0, SMALL.seen)
            expected = oracle.gm_appeal(loss[c, -1, seen], threshold[c, seen])
            assert history.gm_appeal("seen", reading)[c, -1] == pytest.approx(expected)


def test_preferred_metric(history):
    unseen = slice(SMALL.seen, None)
    satisfied = history.satisfied("judging")[0, -1, unseen]
    expected = oracle.preferred_accuracy(
        history.evaluation.test_metrics[0][0, -1, unseen],
        history.solo.test_metric[0, unseen],
        satisfied,
    )
    ours = history.preferred_metric("unseen", "judging")[0, -1]
    assert ours == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("which", ["sampled", "participated"])
def test_flags_mark_the_last_rounds_cohort(history, which):
    flags = getattr(history, which)()
    assert not flags[:, 0].any()
    assert history.rounds.tolist() == [0, 3, 6, 7]
    for e, done in enumerate(history.rounds[1:], 1):
        for c in range(2):
            present = getattr(history.cohorts, which)[c, done - 1]
            expected = set(history.cohorts.client_id[c, done - 1][present])
            assert set(np.flatnonzero(flags[c, e])) == expected


def test_a_group_without_clients_has_no_mean(history):
    assert np.isnan(history._replace(is_seen=np.ones(8, bool)).test_metric("unseen")).all()


def test_words_that_mean_nothing_are_refused(history):
    for ask, words in (
        (
            lambda: history.gm_appeal("seen", "foo"),
            "reading = 'foo': expected one of test, judging",
        ),
        (lambda: history.test_metric("foo"), "clients = 'foo': expected one of seen, unseen, all"),
        (
            lambda: history.test_metric("seen", "mine"),
            "model = 'mine': expected one of global, pers",
        ),
    ):
        with pytest.raises(maxfl.InputError, match=words):
            ask()


def test_without_personal_models_there_is_nothing_to_ask_for(history):
    assert not history.has_personal
    with pytest.raises(maxfl.InputError, match="no personal models"):
        history.test_metric("seen", "personal")


def test_a_history_says_its_figures_in_a_line_and_a_table(history):
    appeal = history.gm_appeal()[:, -1]
    assert repr(history).startswith("History(maxfl: 7 rounds, 2 configurations, GM-Appeal of seen ")
    assert f"{appeal.min():.2f}" in repr(history)
    table = history._repr_html_()
    assert "mlp 4-6-5-3" in table
    assert "GM-Appeal, unseen" in table
    unknown = history._replace(origin=None)
    assert repr(unknown).startswith("History(7 rounds, 2 configurations")
    assert "mlp" not in unknown._repr_html_()
    assert repr(unknown._replace(rounds=())) == "History(…)"


def test_a_history_knows_what_it_is_of(history):
    origin = history.origin
    assert origin.federation.digest() == SMALL.digest()
    assert origin.federation.train.x.size == 0, "no client's features"
    assert origin.settings["algorithm"]["temperature"] == [1.0, 0.3]
    assert origin.seeds.tolist() == [0, 4]
    assert len(origin.findings) == 2
