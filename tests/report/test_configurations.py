"""What is one method, and which runs were made on the same data."""

import numpy as np
import pytest

from maxfl.core.appeal import weight
from maxfl.report.configurations import FLAT, observed_temperature, temperature
from maxfl.report.source import read
from support.made_runs import make_history, settings_of, write_run

NONE = np.zeros(0)


def test_other_data_are_another_case(tmp_path):
    settings = [settings_of("fedavg"), {**settings_of("fedavg"), "data": {"alpha": 0.1}}]
    runs = [write_run(tmp_path / str(i), make_history(5, 2), s) for i, s in enumerate(settings)]
    assert read(runs).cases == ["alpha 0.5", "alpha 0.1"]


def test_splits_are_seeds_too(tmp_path):
    data = [{**settings_of("fedavg"), "data": {"seed": split}} for split in (4, 7)]
    runs = [write_run(tmp_path / str(i), make_history(5, 2), s) for i, s in enumerate(data)]
    assert [c.seed for c in read(runs).of("", "FedAvg")] == [4, 7]


def test_defaults_that_other_methods_do_not_have_are_not_named(tmp_path):
    """Runs from Python note all hyper-parameters."""
    settings = [
        settings_of("fedavg", by_size=0.0),
        settings_of("maxfl", temperature=1.0, epsilon=0.001),
        settings_of("maxfl", temperature=0.3, epsilon=0.001),
        settings_of("fedprox", mu=0.5),
    ]
    runs = [write_run(tmp_path / str(i), make_history(5, 2), s) for i, s in enumerate(settings)]
    methods = ["FedAvg", "MaxFL, temperature 1.0", "MaxFL, temperature 0.3", "FedProx, mu 0.5"]
    assert read(runs).methods("") == methods


def test_temperatures_are_those_of_the_methods():
    named = {"algorithm.name": "maxfl-annealed", "algorithm.rounds": 100}
    assert [round(temperature(named, t, NONE, NONE), 4) for t in (0, 50, 100, 150)] == [
        3,
        0.5477,
        0.1,
        0.1,
    ]
    assert (
        temperature({"algorithm.name": "maxfl", "algorithm.temperature": 0.3}, 5, NONE, NONE) == 0.3
    )
    assert temperature({"algorithm.name": "fedavg"}, 5, NONE, NONE) == 1


def test_the_temperature_of_weights_is_found_from_them():
    gap = np.array([-2.0, -0.5, 0.0, 0.3, 4.0, 900.0])
    assert observed_temperature(gap, weight(gap, 0.0, 0.7)) == pytest.approx(0.7, rel=1e-4)
    assert observed_temperature(gap, np.full(6, 0.25)) == FLAT


def test_what_all_portfolios_share_is_no_part_of_a_name(tmp_path):
    runs = [
        write_run(tmp_path / str(n), make_history(4, 2), settings_of("maxfl") | portfolio)
        for n, portfolio in enumerate(
            [{}, *({"portfolio": {"models": m, "patience": 20}} for m in (2, 3))]
        )
    ]
    methods = [c.method for c in read(runs).configurations]
    assert methods == ["MaxFL", "MaxFL, 2 models", "MaxFL, 3 models"]
