"""What a report says first."""

import re

from maxfl.report.series import all_series
from maxfl.report.source import read
from maxfl.report.statistics.compare import Results, read_traces
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
        series = all_series(source)
        return verdicts(Results(source, series, read_traces(source, series)))[0]

    def both_seeds(drift):
        return [(name, drift * (name == "maxfl"), seed, f"x{seed}")
                for name in ("fedavg", "maxfl") for seed in (0, 1)]  # fmt: skip

    ahead = first_words(*both_seeds(0.6))
    assert ahead.startswith("MaxFL is ahead of FedAvg. Share of clients whose requirement is met:")
    assert re.search(
        r"first two: \+\d+ points \(95 % interval \+\d+ to \+\d+; McNemar's p <", ahead
    )
    assert "2 seeds tell little" in ahead
    one = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "x"))
    assert one.startswith("One seed allows no comparison")
    assert re.search(r"MaxFL: \d+ %; FedAvg: \d+ %\. One seed tells of these two models", one)
    assert 'maxfl sweep FILE --over "seed=[0,1,2,3,4]"' in one
    tie = first_words(*both_seeds(0))
    assert tie.startswith("FedAvg and MaxFL are not told apart.")
    apart = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "y"))
    assert apart.startswith("These methods never had the same clients")
    uneven = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "x"), ("maxfl", 0.6, 1, "z"))
    assert "(on the 1 of 2 seeds that all have)" in uneven
    assert first_words(("fedavg", 0, 0, "x")).startswith("The model meets the requirement of")
