"""The trackers of a simulation, told of a federation."""

import pyarrow.parquet as pq
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.flower import MaxFL
from maxfl.utils.errors import InputError
from support.flower_runs import federation, run, stopped

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


class Recorder:
    """A tracker that remembers."""

    def __init__(self, configuration):
        self.configuration, self.logged, self.closed = configuration, {}, []

    def log(self, round, metrics):
        """Remember."""
        self.logged |= {(round, name): value for name, value in metrics.items()}

    def close(self, failed):
        """Remember."""
        self.closed.append(failed)


def written(folder):
    """What the table has, as (round, name) to value; nothing that is not finite is told."""
    rows = pq.read_table(folder / "metrics.parquet").to_pylist()
    finite = [row for row in rows if abs(row["value"]) < float("inf")]
    return {(row["round"], f"seen/{row['metric']}"): row["value"] for row in finite}


@pytest.mark.parametrize("fraction_evaluate", [1.0, 0.0])
def test_trackers_are_told_what_the_table_has_also_after_a_resume(tmp_path, fraction_evaluate):
    made, nodes = [], federation()

    def opens(configuration):
        made.append(Recorder(configuration))
        return made[-1]

    options = {"trackers": [opens], "fraction_evaluate": fraction_evaluate}
    stopped(nodes, tmp_path / "run", 3, **options)
    run(tmp_path / "run", nodes, resume=True, **options)
    assert [tracker.closed for tracker in made] == [[True], [False]]
    logged = made[0].logged | made[1].logged
    assert logged == pytest.approx(written(tmp_path / "run"))
    assert made[0].configuration.settings["training"]["rounds"] == 4
    run(tmp_path / "run", nodes, resume=True, **options)
    assert len(made) == 2  # nothing is left to tell


def test_tensorboard_by_its_name(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run(tmp_path / "run", federation(), rounds=2, trackers=["tensorboard"])
    found = events.EventAccumulator(str(tmp_path / "run/tensorboard/0000"))
    found.Reload()
    logged = {
        (event.step, tag): float(event.tensor_proto.float_val[0])
        for tag in found.Tags()["tensors"]
        for event in found.Tensors(tag)
    }
    assert logged == pytest.approx(written(tmp_path / "run"))


@pytest.mark.filterwarnings("ignore")  # of the library's own
def test_mlflow_goes_on_in_one_run(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    for rounds in (1, 2):  # the second extends the first
        run(tmp_path / "run", federation(), rounds=rounds, trackers=["mlflow"], resume=rounds > 1)
    client = mlflow.MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("maxfl").experiment_id])
    assert (found.info.status, found.data.params["algorithm.name"]) == ("FINISHED", "maxfl-auto")
    points = client.get_metric_history(found.info.run_id, "seen/gm_appeal")
    assert [point.step for point in points] == [1, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trackers": ["tensor"], "folder": "run"}, "trackers = 'tensor': expected one of"),
        ({"trackers": "mlflow", "folder": "run"}, r"expected a list, \['mlflow'\]"),
        ({"trackers": ["tensorboard"]}, "trackers= needs a folder"),
        ({"keep": 2}, "keep= needs a folder"),
        ({"keep": -1}, "keep"),
        ({"metrics_port": 70000}, "metrics_port"),
    ],
)
def test_bad_options_are_told(options, words):
    with pytest.raises(InputError, match=words):
        MaxFL(**options)
