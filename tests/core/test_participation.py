"""Who participates: sampling, leaving, coming back, declining, failing."""

import jax
import numpy as np
import pytest

import maxfl
from maxfl.core.participation import (
    ParticipationHParams,
    ParticipationRule,
    responds,
    sample,
    willing,
)
from support import small


def counts(draws, clients):
    """Return how often each client was drawn."""
    drawn = [np.asarray(sample(jax.random.key(s), *draws)[0]) for s in range(300)]
    return np.bincount(np.concatenate(drawn), minlength=clients)


def test_sampling_is_uniform_and_without_replacement():
    available = np.array([True] * 6)
    times = counts((available, 2), 6)
    assert times.sum() == 600
    assert (abs(times - 100) < 40).all()
    for s in range(20):
        assert len(set(np.asarray(sample(jax.random.key(s), available, 5)[0]))) == 5


def test_only_available_clients_are_real():
    available = np.array([False, True, False, True, False])
    index, real = sample(jax.random.key(0), available, 3)
    np.testing.assert_array_equal(real, [True, True, False])
    assert set(np.asarray(index)[np.asarray(real)]) == {1, 3}


def test_cohorts_differ_only_as_far_as_availability_does():
    # Client 4 leaves: the others keep their order, and the next one moves up.
    everyone = np.ones(8, bool)
    without = everyone.copy()
    before, _ = sample(jax.random.key(3), everyone, 4)
    without[int(before[1])] = False
    after, _ = sample(jax.random.key(3), without, 4)
    np.testing.assert_array_equal(after[:3], np.delete(np.asarray(before), 1))


def test_willing_by_hand():
    loss, rho = np.array([0.5, 1.5], np.float32), np.ones(2, np.float32)
    hparams = ParticipationHParams(start_round=10)
    for rule, round_, wants in (
        (ParticipationRule.EVERYONE, 99, [True, True]),
        (ParticipationRule.OPT_OUT, 9, [True, True]),
        (ParticipationRule.OPT_OUT, 10, [True, False]),
        (ParticipationRule.DECLINE, 10, [True, False]),
    ):
        np.testing.assert_array_equal(willing(rule, hparams, round_, loss, rho), wants)


def test_dropout_has_its_rate_and_is_drawn_by_client():
    clients = np.arange(4000)
    stay = np.asarray(responds(jax.random.key(0), ParticipationHParams(0, 0.3), clients))
    assert stay.mean() == pytest.approx(0.7, abs=0.03)
    again = np.asarray(responds(jax.random.key(0), ParticipationHParams(0, 0.3), clients[::-1]))
    np.testing.assert_array_equal(stay, again[::-1])


def train(participation, requirement, rounds=12, algorithm=None):
    training = small.TRAINING._replace(rounds=rounds, local_lr=0.3)
    return small.train(
        algorithm or maxfl.fedavg(), training,
        participation=participation, requirement=requirement, seed=5,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "algorithm", "samples"),
    [
        (maxfl.opt_out, maxfl.fedavg(), False),
        (maxfl.decline, maxfl.maxfl(epsilon=0.0), True),
    ],
)
def test_nobody_willing_leaves_the_model_as_it_was(rule, algorithm, samples):
    with pytest.warns(maxfl.TrainingWarning, match="no client participated .* none was willing"):
        history = train(rule(0), maxfl.fixed(1e-6, **small.PAPER), algorithm=algorithm)
    assert not history.cohorts.participated.any()
    assert not history.evaluation.willing.any()
    np.testing.assert_array_equal(history.stalled_from(), [1])
    np.testing.assert_array_equal(history.cohorts.sampled, samples)
    np.testing.assert_array_equal(history.sampled()[:, 1:].sum(-1), 3 if samples else 0)
    assert not history.participated().any()
    losses = history.evaluation.judging_loss[0]
    np.testing.assert_array_equal(losses, np.broadcast_to(losses[0], losses.shape))


def test_opt_out_starts_at_its_round_and_clients_come_back():
    # A threshold at the middle of the losses, so that clients cross it in both directions.
    history = train(maxfl.opt_out(4), maxfl.fixed(1.1, **small.PAPER), rounds=40)
    assert history.cohorts.participated[0, :4].all()
    wants = history.evaluation.willing[0]  # after r rounds: for round r, counted from 0
    satisfied = history.satisfied("judging")[0]
    np.testing.assert_array_equal(wants[4:], satisfied[4:])
    assert wants[:4].all()
    left_and_returned = (~wants[4:-1] & wants[5:])[:, : small.SMALL.seen].any()
    assert left_and_returned, "some client should come back"
    for t in range(4, 40):
        present = history.cohorts.client_id[0, t][history.cohorts.participated[0, t]]
        assert wants[t][present].all()


def test_decline_samples_as_if_everyone_would_come():
    requirement = maxfl.fixed(1.15, **small.PAPER)
    options = {"requirement": requirement, "algorithm": maxfl.maxfl(epsilon=0.0)}
    declining, free = (
        train(rule, **options).cohorts for rule in (maxfl.decline(0), maxfl.everyone())
    )
    np.testing.assert_array_equal(declining.client_id, free.client_id)
    assert not declining.participated.all()


def test_random_dropout_thins_the_cohort():
    requirement = maxfl.solo(1.2, 5, **small.PAPER)
    history = train(maxfl.everyone(client_dropout=0.5), requirement, rounds=60)
    assert history.cohorts.participated.mean() == pytest.approx(0.5, abs=0.12)
    assert (history.cohorts.weight[~history.cohorts.participated] == 0).all()
    assert history.cohorts.sampled.all()
    np.testing.assert_array_equal(history.stalled_from(), [0])


@pytest.mark.parametrize(
    "hparams", [{"start_round": -1}, {"start_round": 1.5}, {"client_dropout": 1.0}]
)
def test_bad_numbers_are_refused(hparams):
    with pytest.raises(maxfl.InputError, match=next(iter(hparams))):
        maxfl.opt_out(**hparams)


def test_it_prints_as_it_would_be_written():
    assert repr(maxfl.everyone()) == "everyone()"
    assert repr(maxfl.everyone(0.5)) == "everyone(client_dropout=0.5)"
    assert repr(maxfl.opt_out()) == "opt_out(start_round=10)"
    assert repr(maxfl.decline([1, 2], 0.1)) == "decline(start_round=[1, 2], client_dropout=0.1)"
