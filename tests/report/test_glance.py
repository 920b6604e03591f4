"""The settings of runs, in words."""

from maxfl.report.glance import facts
from maxfl.report.series import all_series
from maxfl.report.source import read
from maxfl.report.statistics.compare import read_traces
from support.made_runs import make_history, settings_of, write_run

SETTINGS = {
    "data": {"clients": 6, "unseen": 2}, "model": {"name": "mlp", "hidden": [64, 30]},
    "training": {"rounds": 3, "cohort": 2, "local_steps": 5, "batch_size": 4, "local_lr": 0.1,
                 "server_lr": 1.0},
    "participation": {"rule": "opt-out", "start_round": 2}, "attack": {"fraction": 0.1},
}  # fmt: skip


def write(folder, name, seed, **more):
    settings = settings_of(name) | SETTINGS | more
    return write_run(folder / f"{name}-{seed}", make_history(6, 3), settings, seed, "federation")


def test_what_runs_share_is_said_once_and_what_differs_is_listed(tmp_path):
    other = {"training": SETTINGS["training"] | {"local_lr": 0.2}}
    runs = [write(tmp_path, "fedavg", 0), write(tmp_path, "maxfl", 1, **other)]
    found = dict(facts(read(runs).configurations, {}))
    assert found["Clients"] == "6, and 2 unseen"
    assert found["Model"] == "mlp [64, 30]"
    assert found["Rounds"] == "3 of 2 clients, 5 steps on 4 samples"
    assert found["Learning rates"] == "0.1 (clients), 1.0 (server); 0.2 (clients), 1.0 (server)"
    assert found["Participation"] == "opt-out after 2 rounds"
    assert found["Byzantine"] == "10% of the clients that train"
    assert found["Seeds"] == "0, 1"
    assert "solo" not in found


def test_what_a_folder_does_not_tell_is_left_out(tmp_path):
    run = write_run(tmp_path / "run", make_history(6, 3), settings_of("maxfl"), 0, "federation")
    found = dict(facts(read([run]).configurations, {}))
    assert found["Rounds"] == "3"
    assert not {"Clients", "Model", "Participation", "Byzantine"} & set(found)


def test_many_values_are_counted(tmp_path):
    runs = [write(tmp_path, "fedavg", seed) for seed in range(6)]
    assert dict(facts(read(runs).configurations, {}))["Seeds"] == "0, 1, … (6 different)"


def test_clients_are_counted_where_they_are_known(tmp_path):
    history = make_history(7, 3, unseen=2)
    settings = settings_of("maxfl") | {"data": {"clients": 50, "unseen": 50}}  # of other sources
    source = read([write_run(tmp_path / "run", history, settings, 0, "federation")])
    traces = read_traces(source, all_series(source))
    assert dict(facts(source.configurations, traces))["Clients"] == "5, and 2 unseen"


def test_of_a_streamed_federation_those_are_counted_that_evaluate(tmp_path):
    settings = settings_of("maxfl") | {"data": {"source": "disk"}}
    run = write_run(tmp_path / "run", make_history(7, 3), settings, 0, "federation")
    source = read([run])
    found = facts(source.configurations, read_traces(source, all_series(source)))
    assert dict(found)["Clients"] == "7 (those that evaluate the model)"
