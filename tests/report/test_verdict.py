"""What a report says first."""

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

    ahead = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "x"))
    assert ahead.startswith("MaxFL satisfies the most clients: it meets the requirement of")
    tie = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0, 0, "x"))
    assert tie.startswith("FedAvg and MaxFL are no further apart than seeds differ.")
    apart = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "y"))
    assert apart.startswith("These methods never had the same clients")
    uneven = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "x"), ("maxfl", 0.6, 1, "z"))
    assert "(on the 1 of 2 seeds that all have)" in uneven
    assert first_words(("fedavg", 0, 0, "x")).startswith("The model meets the requirement of")
