"""What a report says first."""

import re

from maxfl.report.series import all_series
from maxfl.report.source import read
from maxfl.report.verdict import verdicts
from support.made_runs import make_history, settings_of, write_run


def test_a_verdict_only_where_one_can_be_given(tmp_path):
    def first_words(*runs):
        source = read([
            write_run(
                tmp_path / f"{i}-{len(list(tmp_path.iterdir()))}",
                make_history(20, 3, drift=drift, seed=seed), settings_of(name), seed, digest,
            )
            for i, (name, drift, seed, digest) in enumerate(runs)
        ])  # fmt: skip
        return verdicts(source, all_series(source))[0]

    def both_seeds(drift):
        return [(name, drift * (name == "maxfl"), seed, f"x{seed}")
                for name in ("fedavg", "maxfl") for seed in (0, 1)]  # fmt: skip

    ahead = first_words(*both_seeds(0.6))
    assert ahead.startswith("MaxFL satisfies the most clients: it meets the requirement of")
    one = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "x"))
    assert one.startswith("One seed allows no comparison")
    assert re.search(r"MaxFL: \d+ %; FedAvg: \d+ %\.$", one)
    tie = first_words(*both_seeds(0))
    assert tie.startswith("FedAvg and MaxFL are no further apart than seeds differ.")
    apart = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "y"))
    assert apart.startswith("These methods never had the same clients")
    uneven = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "x"), ("maxfl", 0.6, 1, "z"))
    assert "(on the 1 of 2 seeds that all have)" in uneven
    assert first_words(("fedavg", 0, 0, "x")).startswith("The model meets the requirement of")
