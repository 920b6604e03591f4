"""Metrics on a port, as Prometheus reads them."""

import math
import urllib.error
import urllib.request

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import Error, Message

from maxfl.flower import MaxFL
from maxfl.flower.monitoring import monitor as monitor_module
from maxfl.flower.monitoring.prometheus import Exporter, exposition
from maxfl.utils.errors import InputError
from support.flower_nodes import START, Nodes, arrays, make_app
from support.flower_runs import federation, run, stopped

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def parsed(text):
    """Values by name and labels, read by Prometheus's own package where it is installed."""
    parser = pytest.importorskip("prometheus_client.parser", reason="no prometheus-client")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def get(port, path="/metrics"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
        return reply.read().decode()


def scraping(monkeypatch, nodes):
    """What is served when the first client is asked for the n-th time, as text."""
    ports, seen = [], []
    node, good = next(iter(nodes.apps.items()))
    monkeypatch.setattr(
        monitor_module,
        "log",
        lambda _, words, *given: "Prometheus" in words and ports.append(given),
    )

    def scrapes(message, context):
        seen.append(get(ports[-1][1]))
        return good(message, context)

    nodes.apps[node] = scrapes
    return ports, seen


def test_metrics_are_served_while_the_run_is_at_work(tmp_path, monkeypatch):
    def fails(message, context):  # noqa: ARG001
        return Message(Error(3, "it broke"), reply_to=message)

    nodes = Nodes(*federation().apps.values(), fails, make_app(1.0, 2.0, np.nan), None)
    ports, seen = scraping(monkeypatch, nodes)
    strategy = MaxFL(folder=tmp_path / "run", decline_after=1, metrics_port=0)
    strategy.start(nodes, arrays(START), num_rounds=3)
    begin, end = parsed(seen[0]), parsed(seen[-1])  # before a round, and in the last evaluation
    assert begin[("maxfl_rounds_planned",)] == 3
    assert begin[("maxfl_rounds_done_total",)] == 0
    assert math.isnan(begin[("maxfl_gm_appeal",)])
    assert end[("maxfl_rounds_done_total",)] == 2
    assert end[("maxfl_gm_appeal",)] == strategy.rounds[1].evaluation.gm_appeal
    assert end[("maxfl_temperature",)] == strategy.rounds[1].solver.temperature
    assert end[("maxfl_test_metric", "accuracy")] == 0.5
    counts = strategy.rounds[1].counts
    for name, number in counts._asdict().items():
        assert end[("maxfl_clients", name)] == number
        assert end[("maxfl_clients_total", name)] == number + getattr(strategy.counts[1], name)
    # In the evaluation the node whose training is no good answers well, the silent one does not.
    assert end[("maxfl_refusals_total", "rejected", "not-finite")] == 2
    assert end[("maxfl_refusals_total", "failed", "timeout")] == 4
    assert end[("maxfl_refusals_total", "failed", "error")] == 4
    assert 0 < end[("maxfl_round_seconds",)] < 60
    with pytest.raises(urllib.error.URLError):
        get(ports[-1][1])  # the run has ended


def test_counters_go_on_after_a_resume(tmp_path, monkeypatch):
    nodes = federation()
    stopped(nodes, tmp_path / "run", 5)  # in the third round
    _, seen = scraping(monkeypatch, nodes)
    run(tmp_path / "run", nodes, resume=True, metrics_port=0)
    assert parsed(seen[0])[("maxfl_rounds_done_total",)] == 2
    assert parsed(seen[0])[("maxfl_clients_total", "sampled")] == 6


def test_an_unbounded_temperature_and_nothing_yet_are_numbers_too():
    metrics = parsed(exposition([], 5))
    assert metrics[("maxfl_rounds_planned",)] == 5
    strategy = MaxFL()
    strategy.start(federation(), arrays(START), num_rounds=1)
    assert parsed(exposition(strategy.rounds, 1))[("maxfl_temperature",)] == math.inf


def test_other_addresses_and_a_port_in_use_are_told():
    exporter = Exporter()
    with exporter.serving("127.0.0.1", 0):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(exporter.port, "/")
        with (
            pytest.raises(InputError, match="choose another metrics_port"),
            Exporter().serving("127.0.0.1", exporter.port),
        ):
            pass
