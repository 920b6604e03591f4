"""What a report says first."""

import re

import numpy as np

from maxfl.report.series import all_series
from maxfl.report.source import read
from maxfl.report.statistics.compare import Results, read_traces
from maxfl.report.verdict import falls, verdicts
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
    assert """maxfl sweep FILE --over 'algorithm.name=["maxfl-auto", "fedavg"]' --over""" in one
    tie = first_words(*both_seeds(0))
    assert tie.startswith("FedAvg and MaxFL are not told apart.")
    apart = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "y"))
    assert apart.startswith("These methods never had the same clients")
    uneven = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "x"), ("maxfl", 0.6, 1, "z"))
    assert "(on the 1 of 2 seeds that all have)" in uneven
    assert first_words(("fedavg", 0, 0, "x")).startswith("The model meets the requirement of")


def test_a_model_that_was_better_before_is_named(tmp_path):
    run = write_run(tmp_path / "run", make_history(20, 4), settings_of("maxfl"))
    source = read([run])
    series = all_series(source)
    (key,) = (k for k in series if k.clients == "seen" and k.metric == "gm_appeal")
    results = Results(source, series, {})

    def said(values):
        series[key] = series[key]._replace(values=np.array([values]))
        return falls(results)

    assert said([0.0, 0.1, 0.3, 0.4, 0.4]) == []
    assert said([0.0, 0.45, 0.6, 0.52, 0.51]) == []  # less than a tenth
    (line,) = said([0.0, 0.45, 0.6, 0.4, 0.25])
    assert line.startswith("MaxFL had a GM-Appeal of 0.60 after round 2, and 0.25 after the last")
    assert "fewer rounds" in line
