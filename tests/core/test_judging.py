"""What clients hold out to judge by: how much, which samples, and who holds out none."""

import numpy as np
import pytest

import maxfl
from maxfl.core.federation import Samples
from maxfl.core.federation_files import read_clients
from maxfl.core.judging import Judging, hold_out, judging, with_judging
from support.oracle_maxfl import ROUNDS, START, assert_many_rounds
from support.oracle_runs import SEED, TRAINING, trained
from support.poison import assert_same_but_test, poison
from support.small import MODEL, SMALL

HELD_OUT, BY_TRAINING = Judging("held-out", 0.25), Judging("training")
METHOD, OPTS_OUT = maxfl.maxfl(0.7, 0.02), maxfl.opt_out(START)
REQUIREMENT = maxfl.solo(1.3, steps=5, local_lr=(0.2, 0.05), batch_size=4)


def numbered(sizes):
    """Return samples whose feature and label are their row."""
    rows = np.arange(sum(sizes))
    return Samples(rows[:, None].astype(np.float32), rows, np.cumsum([0, *sizes]).astype(np.int32))


def parts_of(sizes, fraction=0.25, **options):
    """Return the rows that each client trains on, and those it judges by."""
    parts = hold_out(numbered(sizes), fraction, **options)
    return [[set(c) for c in np.split(p.y, p.offsets[1:-1])] for p in parts]


def federation(sizes):
    """Return a federation of clients of these sizes, with names."""
    data = [(np.ones((n, 2)), np.arange(n) % 2) for n in sizes]
    names = [f"c{k}" for k in range(len(sizes))]
    return maxfl.Federation.from_clients(data, [([[1.0, 1.0]], [1])] * len(sizes), names=names)


def test_every_client_holds_out_its_share():
    sizes = [4, 5, 11, 100]
    train, judged = parts_of(sizes)
    assert [len(rows) for rows in judged] == [1, 1, 2, 25]
    for k, (ours, held) in enumerate(zip(train, judged, strict=True)):
        first = sum(sizes[:k])
        assert ours | held == set(range(first, first + sizes[k]))
        assert not ours & held
    # 0.2 · 15 is 3, though not as floats; and one sample stays, whatever the share.
    assert [len(rows) for rows in parts_of([15, 2], 0.2)[1]] == [3, 2]
    assert [len(rows) for rows in parts_of([15, 3], 0.99)[0]] == [1, 1]


def test_the_samples_are_drawn_at_random():
    _, (held,) = parts_of([4000])
    quarters = np.histogram(list(held), 4, (0, 4000))[0]
    assert quarters.sum() == 1000
    np.testing.assert_allclose(quarters, 250, atol=60)
    one, other = (parts_of([40], client_ids=np.array([k]))[1][0] for k in (0, 1))
    assert one != other


def test_they_are_worked_by_hand():
    """The highest ranks of SplitMix64(id · 2³² + row), in plain integers."""

    def draw(number):
        mask = 2**64 - 1
        z = (number + 1) * 0x9E3779B97F4A7C15 & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31

    sizes, ids, first = [8, 5, 4], [7, 2, 100_000], 0
    _, judged = parts_of(sizes, 0.4, client_ids=np.array(ids))
    for size, k, held in zip(sizes, ids, judged, strict=True):
        order = sorted(range(size), key=lambda row, k=k: draw(k * 2**32 + row))
        count = int(0.4 * size)
        assert held == {first + row for row in order[-count:]}
        first += size


def test_whoever_else_is_read_finds_the_same():
    """A client's parts are the same among all clients and among some in another order."""
    train, held = hold_out(SMALL.train, 0.3)
    some = np.array([6, 2, 3])
    for whole, of_some in zip(
        (train, held), hold_out(read_clients(SMALL.train, some), 0.3, some), strict=True
    ):
        for ours, theirs in zip(read_clients(whole, some), of_some, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_samples_that_overlap_are_held_out_at_the_end():
    """Ten windows, of which each shares something with the two after it: 8 are free, 2 held."""
    train, judged = parts_of([10, 3], overlap=2)
    assert train == [set(range(6)), {10, 11, 12}]
    assert judged == [{8, 9}, {10, 11, 12}]


def test_clients_that_are_too_small_judge_by_training_data_and_are_named():
    found = with_judging(federation([8, 3, 4, 1]), HELD_OUT)
    assert found.train_sizes.tolist() == [6, 3, 3, 1]
    assert np.diff(found.judging.offsets).tolist() == [2, 3, 1, 1]
    assert found.judging_sizes.tolist() == [2, 0, 1, 0]
    assert found.metadata.judges_by_training.tolist() == [False, True, False, True]
    (note,) = found.metadata.notes
    assert note.startswith("2 of 4 clients have too few samples to hold any out (c1, c3): they")
    assert "1 to 6 train, 0 to 2 judging and 1 test samples each" in repr(found)
    many = with_judging(federation([3] * 7), HELD_OUT)
    assert "(c0, c1, c2, c3, c4 and 2 more)" in many.metadata.notes[0]
    large = with_judging(federation([8, 4]), HELD_OUT)
    assert large.metadata.judges_by_training is None
    assert large.metadata.notes == ()


def test_judging_data_that_are_there_are_kept_or_not_looked_at():
    whole = with_judging(SMALL, HELD_OUT)
    assert with_judging(whole, Judging("held-out", 0.5)) is whole
    assert with_judging(whole, BY_TRAINING).judging is None
    assert with_judging(SMALL, BY_TRAINING) == SMALL
    assert SMALL.judged is SMALL.train
    assert whole.judged is whole.judging


def test_a_federation_is_known_by_what_it_holds_out():
    digests = {with_judging(SMALL, chosen).digest() for chosen in (HELD_OUT, BY_TRAINING)}
    digests |= {with_judging(SMALL, Judging("held-out", 0.5)).digest()}
    assert len(digests) == 3


def test_data_are_the_same_whatever_clients_judge_by():
    for chosen in (HELD_OUT, BY_TRAINING, Judging("held-out", 0.5)):
        held = with_judging(SMALL, chosen)
        assert held.digest_as_given() == SMALL.digest()
        assert not held.has_own_judging
    own = with_judging(SMALL, HELD_OUT)._replace(given_digest=None)
    assert with_judging(own, HELD_OUT).has_own_judging
    left_alone = with_judging(own, BY_TRAINING)
    assert not left_alone.has_own_judging
    assert left_alone.digest_as_given() == own.digest()


def test_one_from_disk_is_known_by_the_parts_that_are_looked_at():
    """Its digest was computed with the judging part, which nobody sees who judges by training."""
    whole = with_judging(SMALL, HELD_OUT)
    opened = whole._replace(known_digest=whole.digest())
    assert with_judging(opened, BY_TRAINING).digest() == with_judging(whole, BY_TRAINING).digest()
    assert with_judging(opened, BY_TRAINING).digest() != opened.digest()


def test_wrong_words_and_fractions_are_refused():
    assert judging() == HELD_OUT
    for arguments, words in (
        (("test",), r"requirement.judge = 'test': expected one of held-out, training"),
        (("held-out", 0), "requirement.judge_fraction = 0: expected"),
        (("held-out", 1), "requirement.judge_fraction = 1: expected"),
        (("held-out", [0.1, 0.2]), "expected one number"),
    ):
        with pytest.raises(maxfl.InputError, match=words):
            judging(*arguments)


def test_gaps_weights_and_willingness_come_from_what_is_held_out():
    """Clients that opt out, as a plain-NumPy replay of the same cohorts and minibatches has it."""
    history = assert_many_rounds(METHOD, OPTS_OUT, requirement=REQUIREMENT)
    assert history.judge == "held-out"
    assert not history.evaluation.willing.all(), "some should leave"


def test_nothing_of_the_test_part_reaches_training():
    """Other labels and huge features there change what is reported and nothing else."""
    clean = trained(
        METHOD, TRAINING._replace(rounds=ROUNDS), participation=OPTS_OUT, requirement=REQUIREMENT
    )
    poisoned = maxfl.simulate(
        SMALL._replace(test=poison(SMALL.test)), MODEL, METHOD, TRAINING._replace(rounds=ROUNDS),
        participation=OPTS_OUT, requirement=REQUIREMENT, seed=SEED,
    )  # fmt: skip
    assert_same_but_test(clean, poisoned)
