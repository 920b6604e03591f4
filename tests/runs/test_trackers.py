"""The same metrics to TensorBoard, MLflow and Weights & Biases, each as it is installed."""

import json

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import maxfl
from maxfl.runs.progress import PROGRESS
from maxfl.runs.tables import Labels
from maxfl.runs.trackers import tracker
from maxfl.runs.trackers.base import Configuration
from maxfl.utils.errors import InputError
from support import small
from support.small import Choice

VALUES = [{"training.local_lr": 0.1}, {"training.local_lr": 0.01}]
LABELS = Labels(values=VALUES)


@pytest.fixture(scope="module")
def simulation():
    """Two configurations, cut into two blocks."""
    choices = Choice(local_lr=0.1), Choice(local_lr=0.01, batch_size=2)
    return small.simulation(**small.sweep(*choices, rounds=4))


def written(folder, number):
    """Return metrics.parquet as (round, name) to value."""
    rows = pq.read_table(folder / "metrics.parquet").filter(pc.field("configuration") == number)
    return {(r["round"], f"{r['clients']}/{r['metric']}"): r["value"] for r in rows.to_pylist()}


def check(logged, folder, number):
    """Compare what a tracker was told with what the table has."""
    expected = written(folder, number)
    assert logged.keys() == expected.keys()
    keys = sorted(expected)
    np.testing.assert_allclose([logged[k] for k in keys], [expected[k] for k in keys], rtol=1e-6)


class Recorder:
    """A tracker that remembers; ``fails_at`` is a round that it can't take."""

    def __init__(self, configuration, made, fails_at=None):
        self.configuration, self.logged, self.closed = configuration, {}, []
        self._fails_at = fails_at
        made.append(self)

    def log(self, round, metrics):
        """Remember."""
        if round == self._fails_at:
            raise ConnectionError("the server is away")
        self.logged |= {(round, name): value for name, value in metrics.items()}

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
            simulation, tmp_path / "run", labels=LABELS, progress=cut_off,
            trackers=[lambda configuration: Recorder(configuration, first)],
        )  # fmt: skip
    assert json.loads((tmp_path / "run" / PROGRESS).read_text())["stopped"] == "KeyboardInterrupt"
    maxfl.run(
        simulation, tmp_path / "run", labels=LABELS, resume=True,
        trackers=[lambda configuration: Recorder(configuration, second)],
    )  # fmt: skip
    assert not (tmp_path / "run" / PROGRESS).exists()
    assert [r.closed for r in first + second] == [[True], [True], [False], [False]]
    assert first[0].configuration.name == "run: local_lr 0.1"
    for number in (0, 1):
        assert not first[number].logged.keys() & second[number].logged.keys()
        check(first[number].logged | second[number].logged, tmp_path / "run", number)


def test_a_tracker_that_fails_does_not_end_the_run(simulation, tmp_path):
    made = []
    with pytest.warns(UserWarning, match="a tracker failed and is left out.*the server is away"):
        maxfl.run(
            simulation, tmp_path / "run", labels=LABELS,
            trackers=[lambda c: Recorder(c, made, 2), lambda c: Recorder(c, made)],
        )  # fmt: skip
    check(made[1].logged, tmp_path / "run", 0)
    assert {done for done, _ in made[0].logged} == {0, 1}


def test_an_id_is_kept_for_the_next_resume(tmp_path):
    third = Configuration(tmp_path, 3, {}, {})
    assert third.tracker_id("somewhere", lambda: "first") == "first"
    assert third.tracker_id("somewhere", lambda: "second") == "first"
    assert third._replace(number=4).tracker_id("somewhere", lambda: "second") == "second"


def test_tensorboard(simulation, tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    maxfl.run(simulation, tmp_path / "run", trackers=[tracker("tensorboard")])
    for number in (0, 1):
        found = events.EventAccumulator(str(tmp_path / f"run/tensorboard/{number:04d}"))
        found.Reload()
        logged = {
            (event.step, tag): float(event.tensor_proto.float_val[0])
            for tag in found.Tags()["tensors"]
            for event in found.Tensors(tag)
        }
        check(logged, tmp_path / "run", number)


@pytest.mark.filterwarnings("ignore")  # of the libraries' own
@pytest.mark.extras
def test_mlflow(simulation, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "trial")
    config = [{"algorithm": {"name": "fedavg"}}, {"algorithm": {"name": "fedavg"}}]
    maxfl.run(
        simulation,
        tmp_path / "run",
        labels=Labels(values=VALUES, config=config),
        trackers=[tracker("mlflow")],
    )
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("trial")
    runs = {r.info.run_name: r for r in client.search_runs([experiment.experiment_id])}
    assert runs.keys() == {"run: local_lr 0.1", "run: local_lr 0.01"}
    for number, run in enumerate(runs[name] for name in sorted(runs, reverse=True)):
        assert run.info.status == "FINISHED"
        assert run.data.params == {"algorithm.name": "fedavg"}
        logged = {
            (point.step, name): point.value
            for name in run.data.metrics
            for point in client.get_metric_history(run.info.run_id, name)
        }
        check(logged, tmp_path / "run", number)


@pytest.mark.filterwarnings("ignore")  # of the libraries' own
@pytest.mark.extras
def test_wandb_offline(simulation, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    for key, value in {"MODE": "offline", "SILENT": "true", "DATA_DIR": tmp_path,
                       "CACHE_DIR": tmp_path, "CONFIG_DIR": tmp_path}.items():  # fmt: skip
        monkeypatch.setenv(f"WANDB_{key}", str(value))
    maxfl.run(simulation, tmp_path / "run", labels=LABELS, trackers=[tracker("wandb")])
    files = list((tmp_path / "run/wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 2
    assert all(b"seen/gm_appeal" in path.read_bytes() for path in files)


def test_unknown_and_absent_trackers_are_told(monkeypatch):
    with pytest.raises(InputError, match="--track = 'tensor': expected one of tensorboard, mlflow"):
        tracker("tensor")
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    monkeypatch.delitem(__import__("sys").modules, "maxfl.runs.trackers.wandb", raising=False)
    with pytest.raises(InputError, match=r"pip install 'maxfl\[wandb\]'"):
        tracker("wandb")
