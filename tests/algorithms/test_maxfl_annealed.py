"""Annealed MaxFL: many rounds against the oracle."""

import maxfl
from support.oracle_maxfl import assert_many_rounds


def test_many_rounds_agree_with_the_oracle():
    # From 2 to ½ over 4 rounds: 2, √2, 1, √½, ½, ½; steps shrink likewise.
    cooling = [0.5 ** (min(t, 4) / 2) for t in range(6)]
    assert_many_rounds(
        maxfl.maxfl_annealed(2.0, 0.5, 4, 0.02, 1.0), temperatures=[2.0 * c for c in cooling],
        server_rates=cooling,
    )  # fmt: skip
