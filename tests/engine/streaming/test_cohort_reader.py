"""Clients read from disk: which of them must train alone, and what is learnt of them."""

import jax
import numpy as np

import maxfl
from maxfl.core.participation import ParticipationRule
from maxfl.engine.streaming.cohort_reader import CohortData, CohortReader, reads_requirement
from support.streamed import MODEL, TRAINING


def test_which_methods_look_at_requirements():
    params = MODEL.init(jax.random.key(0))
    for method, expected in (
        (maxfl.fedavg(), False), (maxfl.maxfl(), True), (maxfl.scaffold(), False),
        (maxfl.qffl(), False), (maxfl.mwfed(), True), (maxfl.maxfl(temperature=1e-3), True),
    ):  # fmt: skip
        hparams = jax.tree.map(lambda a: np.asarray(a, np.float32)[None], method.hparams)
        plain = method._replace(hparams=None)
        found = reads_requirement(plain, hparams, params, ParticipationRule.EVERYONE)
        assert found is expected, method.name
        assert reads_requirement(method, hparams, params, ParticipationRule.DECLINE)


def test_of_two_rounds_that_find_a_requirement_the_earlier_counts(on_disk):
    session = maxfl.StreamingSimulation(on_disk, MODEL, maxfl.maxfl(), TRAINING).session
    reader = CohortReader(session)
    reader.restore([], [])
    first = reader.learn(CohortData(np.array([1, 4]), None, np.float32([[0.5, 0.6]])))
    ahead = reader.learn(CohortData(np.array([4, 2]), None, np.float32([[0.7, 0.8]])))
    np.testing.assert_array_equal(first.requirement, np.float32([[0.5, 0.6]]))
    np.testing.assert_array_equal(ahead.requirement, np.float32([[0.6, 0.8]]))
    client_ids, requirement = reader.save()
    np.testing.assert_array_equal(client_ids, [1, 2, 4])
    np.testing.assert_array_equal(requirement, np.float32([0.5, 0.8, 0.6]))
