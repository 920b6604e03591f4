"""What clients demand: solo training against plain SGD, and the kinds of requirement."""

import numpy as np
import pytest

import maxfl
from maxfl.core.prng import Purpose, batch_key, key
from maxfl.core.requirement import SoloResults
from maxfl.engine import solo as engine_solo
from support import oracle

TRAINING = maxfl.Training(rounds=1, cohort=1, local_steps=1, batch_size=4, local_lr=0.1)
STEPS = 6


def prepare(federation, model, requirement, **options):
    return maxfl.Simulation(
        federation, model, maxfl.fedavg(), TRAINING, requirement=requirement, seed=3, **options
    ).prepare()


def test_solo_training_agrees_with_the_oracle(small, small_model):
    import jax

    solo, bars = prepare(small, small_model, maxfl.solo(steps=STEPS))
    for k in range(small.clients):
        rows = slice(*small.train.offsets[k : k + 2])
        held_out = slice(*small.test.offsets[k : k + 2])
        x, y = small.train.x[rows].astype(np.float64), small.train.y[rows]
        params = [
            tuple(map(np.asarray, a)) for a in small_model.init(key(3, Purpose.SOLO_INIT, client=k))
        ]
        draws = key(3, Purpose.SOLO_TRAINING, client=k)
        batches = np.stack([
            jax.random.bits(batch_key(draws, r), (4,), np.uint32) % len(y)
            for r in range(STEPS)
        ])  # fmt: skip
        params = oracle.local_sgd(params, x, y, batches, 0.1)
        test = small.test.x[held_out].astype(np.float64), small.test.y[held_out]
        assert solo.train_loss[0, k] == pytest.approx(oracle.loss(params, x, y), abs=1e-5)
        assert solo.test_loss[0, k] == pytest.approx(oracle.loss(params, *test), abs=1e-5)
        assert solo.test_accuracy[0, k] == pytest.approx(oracle.accuracy(params, *test), abs=1e-6)
    np.testing.assert_array_equal(bars.train, solo.train_loss)
    np.testing.assert_array_equal(bars.test, solo.test_loss)


def test_kinds_of_requirement(small, small_model):
    solo, bars = prepare(small, small_model, maxfl.solo(multiple=[2.0, 0.5], steps=STEPS))
    np.testing.assert_allclose(bars.train, [[2], [0.5]] * solo.train_loss)
    np.testing.assert_allclose(bars.test, [[2], [0.5]] * solo.test_loss)
    _, bars = prepare(small, small_model, maxfl.fixed([0.7, 0.9], steps=STEPS))
    np.testing.assert_allclose(bars.train, np.repeat([[0.7], [0.9]], small.clients, 1))
    rule = maxfl.custom(lambda fed, alone: alone.train_loss + 1 / fed.train_sizes, steps=STEPS)
    solo, bars = prepare(small, small_model, rule)
    np.testing.assert_allclose(bars.test, solo.train_loss + 1 / small.train_sizes)


def test_chunks_of_clients_do_not_matter(small, small_model, monkeypatch):
    whole = prepare(small, small_model, maxfl.solo(steps=STEPS))
    monkeypatch.setattr(engine_solo, "SOLO_CHUNK", 1)
    chunked = prepare(small, small_model, maxfl.solo(steps=STEPS))
    np.testing.assert_allclose(whole.solo, chunked.solo, atol=1e-6)


def test_known_results_are_not_trained_again(small, small_model, monkeypatch):
    known = SoloResults()
    make = lambda method: maxfl.Simulation(  # noqa: E731
        small, small_model, method, TRAINING, requirement=maxfl.solo(steps=STEPS), seed=[1, 2]
    )
    first = make(maxfl.fedavg()).prepare(known=known)
    monkeypatch.setattr(engine_solo, "train_alone", None)
    second = make(maxfl.maxfl()).prepare(known=known)
    np.testing.assert_array_equal(first.solo, second.solo)


@pytest.mark.parametrize("given", [[1.0], np.full(8, np.nan), "words"])
def test_a_rule_that_gives_nonsense_is_refused(small, small_model, given):
    with pytest.raises(maxfl.InputError, match="the requirement's rule gave"):
        prepare(small, small_model, maxfl.custom(lambda *_: given, steps=STEPS))


def test_bad_numbers_are_refused():
    for make in (
        lambda: maxfl.solo(multiple=0),
        lambda: maxfl.solo(steps=-1),
        lambda: maxfl.solo(steps=5.0),
        lambda: maxfl.fixed(float("nan")),
        lambda: maxfl.fixed(-1.0),
        lambda: maxfl.custom(3),
    ):
        with pytest.raises(maxfl.InputError, match=r"requirement\."):
            make()
