"""The same metrics to TensorBoard, MLflow and Weights & Biases, each as it is installed."""

import json

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import maxfl
from support.federations import make_clients
from maxfl.runs.progress import PROGRESS
from maxfl.runs.trackers import Configuration, tracker
from maxfl.utils.errors import InputError


@pytest.fixture(scope="module")
def simulation():
    """Two configurations, cut into two blocks."""
    clients = make_clients([9, 5, 7])
    fed = maxfl.Federation.from_clients(clients, clients, unseen=1)
    training = maxfl.Training(
        rounds=4,
        cohort=2,
        local_steps=1,
        batch_size=4,
        local_lr=[0.1, 0.01],
        evaluate_every=1,
        block=2,
    )
    return maxfl.Simulation(fed, maxfl.mlp(4, (5,), 3), maxfl.fedavg(), training)


VALUES = [{"training.local_lr": 0.1}, {"training.local_lr": 0.01}]


def written(folder, number):
    """metrics.parquet as (round, name) to value."""
    rows = pq.read_table(folder / "metrics.parquet").filter(pc.field("configuration") == number)
    return {(r["round"], f"{r['clients']}/{r['metric']}"): r["value"] for r in rows.to_pylist()}


def check(told, folder, number):
    """A tracker was told all that the table has."""
    want = written(folder, number)
    assert told.keys() == want.keys()
    keys = sorted(want)
    np.testing.assert_allclose([told[k] for k in keys], [want[k] for k in keys], rtol=1e-6)


class Recorder:
    """A tracker that remembers; ``fails_at`` is a round that it can't take."""

    def __init__(self, configuration, made, fails_at=None):
        self.configuration, self.told, self.closed = configuration, {}, []
        self._fails_at = fails_at
        made.append(self)

    def log(self, round, metrics):
        """Remember."""
        if round == self._fails_at:
            raise ConnectionError("the server is away")
        self.told |= {(round, name): value for name, value in metrics.items()}

    def close(self, failed):
        """Remember."""
        self.closed.append(failed)


def test_every_metric_is_told_also_after_a_resume(simulation, tmp_path):
    first, second = [], []

    def cut_off(stage, done, _):
        if (stage, done) == ("rounds", 3):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        maxfl.run(
            simulation, tmp_path / "run", values=VALUES, progress=cut_off,
            trackers=[lambda own: Recorder(own, first)],
        )  # fmt: skip
    assert json.loads((tmp_path / "run" / PROGRESS).read_text())["stopped"] == "KeyboardInterrupt"
    maxfl.run(
        simulation, tmp_path / "run", values=VALUES, resume=True,
        trackers=[lambda own: Recorder(own, second)],
    )  # fmt: skip
    assert not (tmp_path / "run" / PROGRESS).exists()
    assert [r.closed for r in first + second] == [[True], [True], [False], [False]]
    assert first[0].configuration.name == "run: local_lr 0.1"
    for number in (0, 1):
        assert not first[number].told.keys() & second[number].told.keys()
        check(first[number].told | second[number].told, tmp_path / "run", number)


def test_a_tracker_that_fails_does_not_end_the_run(simulation, tmp_path):
    made = []
    with pytest.warns(UserWarning, match="a tracker failed and is left out.*the server is away"):
        maxfl.run(
            simulation, tmp_path / "run", values=VALUES,
            trackers=[lambda own: Recorder(own, made, 2), lambda own: Recorder(own, made)],
        )  # fmt: skip
    check(made[1].told, tmp_path / "run", 0)
    assert {done for done, _ in made[0].told} == {0, 1}


def test_an_id_is_kept_for_the_next_resume(tmp_path):
    own = Configuration(tmp_path, 3, {}, {})
    assert own.remembered("somewhere", lambda: "first") == "first"
    assert own.remembered("somewhere", lambda: "second") == "first"
    assert own._replace(number=4).remembered("somewhere", lambda: "second") == "second"


def test_tensorboard(simulation, tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    maxfl.run(simulation, tmp_path / "run", trackers=[tracker("tensorboard")])
    for number in (0, 1):
        found = events.EventAccumulator(str(tmp_path / f"run/tensorboard/{number:04d}"))
        found.Reload()
        told = {
            (event.step, tag): float(event.tensor_proto.float_val[0])
            for tag in found.Tags()["tensors"]
            for event in found.Tensors(tag)
        }
        check(told, tmp_path / "run", number)


@pytest.mark.filterwarnings("ignore")  # of the libraries' own
@pytest.mark.extras
def test_mlflow(simulation, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "trial")
    config = [{"algorithm": {"name": "fedavg"}}, {"algorithm": {"name": "fedavg"}}]
    maxfl.run(
        simulation, tmp_path / "run", values=VALUES, config=config, trackers=[tracker("mlflow")]
    )
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("trial")
    runs = {r.info.run_name: r for r in client.search_runs([experiment.experiment_id])}
    assert runs.keys() == {"run: local_lr 0.1", "run: local_lr 0.01"}
    for number, run in enumerate(runs[name] for name in sorted(runs, reverse=True)):
        assert run.info.status == "FINISHED"
        assert run.data.params == {"algorithm.name": "fedavg"}
        told = {
            (point.step, name): point.value
            for name in run.data.metrics
            for point in client.get_metric_history(run.info.run_id, name)
        }
        check(told, tmp_path / "run", number)


@pytest.mark.filterwarnings("ignore")  # of the libraries' own
@pytest.mark.extras
def test_wandb_offline(simulation, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    for key, value in {"MODE": "offline", "SILENT": "true", "DATA_DIR": tmp_path,
                       "CACHE_DIR": tmp_path, "CONFIG_DIR": tmp_path}.items():  # fmt: skip
        monkeypatch.setenv(f"WANDB_{key}", str(value))
    maxfl.run(simulation, tmp_path / "run", values=VALUES, trackers=[tracker("wandb")])
    files = list((tmp_path / "run/wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 2
    assert all(b"seen/gm_appeal" in path.read_bytes() for path in files)


def test_unknown_and_absent_trackers_are_told(monkeypatch):
    with pytest.raises(InputError, match="--track = 'tensor': want one of tensorboard, mlflow"):
        tracker("tensor")
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    monkeypatch.delitem(__import__("sys").modules, "maxfl.runs.trackers.wandb", raising=False)
    with pytest.raises(InputError, match=r"pip install 'maxfl\[wandb\]'"):
        tracker("wandb")
