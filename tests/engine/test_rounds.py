"""A round of all that a run may have, vectorised and in turn."""

import jax
import numpy as np
import pytest

from support.small import everything, one_device, train


@pytest.mark.slow
def test_many_at_once_agree_with_one_by_one():
    in_turn = train(**everything())
    at_once = train(**everything(max_parallel=4, devices=one_device()))
    for a, b in zip(jax.tree.leaves(in_turn.params), jax.tree.leaves(at_once.params), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    personal = [history.scores("personal").test_loss for history in (in_turn, at_once)]
    np.testing.assert_allclose(*personal, atol=1e-5)
    assert in_turn.is_byzantine.any()
