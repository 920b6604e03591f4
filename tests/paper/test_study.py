"""Whole studies, small ones: searched, cut off, taken up, blown up; and the limit of clusters."""

from contextlib import contextmanager

import jax
import numpy as np
import pyarrow.parquet as pq
import pytest

import maxfl
from maxfl.paper.cluster_limit import at_best, cluster_of, evaluate_unions
from maxfl.paper.compare import compare
from maxfl.paper.declare import Column, Exhibit, Method, Part, Study
from maxfl.paper.plot import draw
from maxfl.paper.results import read
from maxfl.paper.study import SCALES, run_study
from maxfl.runs import sweep
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_json
from maxfl.utils.paths import STUDY

pytestmark = pytest.mark.slow

TINY = Study(
    "tiny",
    (
        Part(
            "toy",
            {
                "data.clients": 6, "data.unseen": 2, "data.samples": 20, "training.rounds": 4,
                "training.cohort": 2, "requirement.steps": 5, "model.hidden": [8], "data.seed": 0,
            },
            {"training.local_lr": 0.1},
        ),
    ),
    (Method("FedAvg", {"algorithm.name": "fedavg"}), Method("MaxFL", {"algorithm.name": "maxfl"})),
    {"training.local_lr": (0.1, 0.01), "training.local_steps": (2,)},
    "test_accuracy",
    baseline="FedAvg",
)  # fmt: skip
"""One federation for all seeds, and in every test two seeds and two points of the grid: each method
has one program for the search, with validation data, and one for the final runs."""
FULL = SCALES["full"]._replace(seeds=2, evaluate_every=2)


class CutOffError(Exception):
    """Stands for Ctrl-C, a full disk, a killed process."""


def stages(cut_off=None, reports=None):
    """Progress of a study that may be cut off in a stage."""

    @contextmanager
    def stage(name):
        def parts(group, groups):
            def report(what, *_):
                if reports is not None:
                    reports.append((name, group, what))
                if name == cut_off and group == groups - 1 and what == "rounds":
                    raise CutOffError

            return report

        yield parts

    return stage


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A study that was never cut off."""
    folder = tmp_path_factory.mktemp("paper") / "whole"
    return run_study(TINY, FULL, folder, stages())


def test_a_study_searches_on_validation_data_and_reports_test_data(tiny):
    search = pq.read_table(tiny / "search/metrics.parquet")
    assert len(set(search["configuration"].to_pylist())) == 2 * 2 * 2
    summary = read_json(tiny / STUDY)
    chosen = summary["chosen"]["toy"]["MaxFL"]
    assert chosen in [{"training.local_lr": a, "training.local_steps": 2} for a in (0.1, 0.01)]
    settings = read_json(tiny / "search/experiment.json")["configurations"].values()
    assert {s["data"]["evaluate_on"] for s in settings} == {"validation"}
    settings = read_json(tiny / "final/experiment.json")["configurations"].values()
    assert {s["data"]["evaluate_on"] for s in settings} == {"test"}
    leads = summary["leads"]["toy"]
    assert {entry["method"] for entry in leads} == {"MaxFL"}, "over the baseline"
    table = pq.read_table(tiny / "results.parquet")
    assert set(table["round"].to_pylist()) == {0, 2, 4}
    assert table.column_names[:6] == ["seed", "round", "clients", "model", "metric", "value"]


@pytest.mark.parametrize("stage", ["search", "final runs"])
def test_a_study_that_was_cut_off_goes_on(tiny, tmp_path, stage):
    folder = tmp_path / "cut"
    with pytest.raises(CutOffError):
        run_study(TINY, FULL, folder, stages(cut_off=stage))
    with pytest.raises(InputError, match="an unfinished run"):
        run_study(TINY, FULL, folder, stages())
    with pytest.raises(InputError, match="holds no finished study"):
        read(folder, TINY.name)
    reports = []
    run_study(TINY, FULL, folder, stages(reports=reports), resume=True)
    assert ("search", 0, "solo training") not in reports, "what was finished is not run again"
    for name in ("search.parquet", "results.parquet"):
        assert pq.read_table(folder / name).equals(pq.read_table(tiny / name))


def test_another_study_does_not_get_the_folder(tiny):
    with pytest.raises(InputError, match="differs in seeds"):
        run_study(TINY, FULL._replace(seeds=3), tiny, stages(), resume=True)


def test_a_folder_of_another_study_is_refused(tiny):
    with pytest.raises(InputError, match="holds the study tiny, not opt-out"):
        read(tiny, "opt-out")


def test_a_study_is_drawn(tiny, tmp_path):
    columns = (Column("toy", "seen", "gm_appeal"), Column("toy", "seen", "test_accuracy"))
    exhibit = Exhibit("fig:toy", "a toy", TINY, columns, is_figure=True)
    draw(exhibit, read(tiny, TINY.name), tmp_path / "toy.png")
    assert (tmp_path / "toy.png").stat().st_size > 10_000
    tables = compare(exhibit, read(tiny, TINY.name))
    assert [row[0] for row in tables[0].rows] == ["FedAvg", "MaxFL"]


def test_a_model_that_diverges_is_not_chosen(tmp_path):
    study = TINY._replace(
        grid={"training.local_lr": (1e30, 0.1), "training.local_steps": (1,)},
        methods=TINY.methods[:1],
        name="blown-up",
    )
    with pytest.warns(maxfl.TrainingWarning) as said:
        run_study(study, FULL, tmp_path / "out", stages())
    assert any("losses are not finite from round 1 on" in str(w.message) for w in said)
    chosen = read_json(tmp_path / "out" / STUDY)["chosen"]["toy"]["FedAvg"]
    assert chosen["training.local_lr"] == 0.1


def test_configurations_that_fail_are_named_and_the_others_kept(tmp_path, monkeypatch):
    folder = tmp_path / "out"
    real = sweep.run

    def run(simulation, *arguments, **options):
        if simulation.session.experiment.algorithm.name == "maxfl":
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: no memory\nand a long trace")
        return real(simulation, *arguments, **options)

    monkeypatch.setattr(sweep, "run", run)
    quick = SCALES["quick"]._replace(rounds=4, seeds=2, evaluate_every=2)
    with pytest.raises(
        InputError, match="2 of 4 configurations failed: part = toy, method = MaxFL"
    ):
        run_study(TINY, quick, folder, stages())
    monkeypatch.setattr(sweep, "run", real)
    run_study(TINY, quick, folder, stages(), resume=True)
    summary = read_json(folder / STUDY)
    assert summary["seconds"] is None, "the time of a study in two sittings is not known"


def test_a_group_that_fails_once_is_tried_again(tmp_path, monkeypatch):
    real, calls = sweep.run, []

    def run(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            raise jax.errors.JaxRuntimeError("INTERNAL: the driver stumbled")
        return real(*arguments, **options)

    monkeypatch.setattr(sweep, "run", run)
    quick = SCALES["quick"]._replace(rounds=4, seeds=1, evaluate_every=2)
    run_study(TINY, quick, tmp_path / "out", stages())
    assert len(calls) == 1 + len(TINY.methods)


def blobs(shift):
    """A client whose labels 0 and 1, or 2 and 3, sit around two points."""
    y = np.arange(40) % 2
    x = np.eye(2)[y] * 2 + np.random.default_rng(shift).normal(size=(40, 2)) * 0.1
    return np.hstack([x, np.full((40, 1), float(shift % 2))]), y + 2 * (shift % 2)


def test_the_limit_of_two_clusters():
    clients = [blobs(k) for k in range(6)]
    fed = maxfl.Federation.from_clients(clients, clients, unseen=2)
    np.testing.assert_array_equal(cluster_of(fed), [0, 1, 0, 1, 0, 1])
    models = evaluate_unions(fed, maxfl.mlp(3, (8,), 4), 0, (50, 400))
    assert set(models) == {(0,), (1,), (0, 1)}
    thresholds = np.full(6, 0.3)
    one = at_best((0,), models[0,], thresholds, 4)
    assert (one.seen, one.unseen) == (0.5, 0.5), "it never saw the other cluster's labels"
    both = at_best((0, 1), models[0, 1], thresholds, 4)
    assert (both.seen, both.unseen) == (1.0, 1.0)
    assert at_best((0,), models[0,], np.zeros(6), 4).seen == 0.0
