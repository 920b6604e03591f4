"""The paper's experiments: declarations, choice, comparison, and whole studies cut short."""

import csv
import re
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import maxfl
from maxfl import sweep
from maxfl.cli import app
from maxfl.data.download import UnavailableError
from maxfl.errors import InputError
from maxfl.paper.catalogue import EXPERIMENTS
from maxfl.paper.compare import compare
from maxfl.paper.declare import Column, Experiment, Method, Part, Study
from maxfl.paper.draw import draw
from maxfl.paper.limit import at_best, cluster_of, union_models
from maxfl.paper.results import Outcome, kept, printed, read
from maxfl.paper.study import (
    ABOUT,
    SCALES,
    best,
    case,
    data_of,
    run_study,
    with_the_papers_data,
)

PRINTED = Path(maxfl.__file__).parent / "paper/printed.csv"


def test_every_experiment_is_declared_as_the_settings_want_it():
    for study in {e.study.name: e.study for e in EXPERIMENTS.values()}.values():
        points = [dict(zip(study.grid, v, strict=True)) for v in product(*study.grid.values())]
        assert len(points) in (1, 36, 45)
        for part, method in product(study.parts, study.methods):
            for point in (part.typical, points[0], points[-1]):
                config = case(part, method, point, {}, 0).config
                assert config.training.rounds == 200
            if method.paced:
                assert config.algorithm.numbers["rounds"] == 200
            # The product of the rates is one that the paper searched.
            rates = {config.training.local_lr * p.get("training.server_lr", 1.0) for p in points}
            if "training.server_lr" in study.grid and part.label == "FMNIST":
                assert sorted(rates) == pytest.approx([0.005, 0.01, 0.05, 0.1])


def test_every_printed_figure_has_its_place():
    with PRINTED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    places = [
        (name, method, column)
        for name, e in EXPERIMENTS.items()
        for (method, column) in printed(e)
        if method in e.shown
    ]
    assert len(places) == len(set(places)) == len(rows) == 214


def test_some_printed_figures():
    seen = Column("FMNIST", "seen", "test_accuracy")
    table = printed(EXPERIMENTS["tab:testacc"])
    assert table["MaxFL", seen] == ("70.86", "2.18")
    assert table["FedAvg", seen] == ("43.70", "0.02")
    unseen = printed(EXPERIMENTS["tab:unseen"])
    assert unseen["MaxFL", Column("Sent140", "unseen", "gm_appeal")] == ("0.43", "0.05")
    assert printed(EXPERIMENTS["fig:syn"]) == {}


PART = Part("toy", {}, {})
STUDY = Study("toy", (PART,), (Method("A", {}), Method("B", {})), {"x": (1, 2, 3)}, "gm_appeal")


def found(rows):
    """A search's table of (method, x, seed, metric, value)."""
    names = ("method", "x", "seed", "metric", "value")
    columns = {
        name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }
    count = len(rows)
    return pa.table({
        "part": ["toy"] * count, "clients": ["seen"] * count, "model": ["global"] * count,
        **columns,
    })  # fmt: skip


def test_the_best_point_is_that_of_the_largest_mean():
    values = {1: (0.2, 0.4), 2: (0.1, 0.7), 3: (0.9, 0.9)}
    rows = [
        ("A", x, seed, metric, value)
        for x, pair in values.items()
        for seed, value in enumerate(pair)
        for metric in ("gm_appeal", "preferred_accuracy", "train_loss")
    ]
    diverged = [*rows[:-1], (*rows[-1][:4], np.nan)]  # 3 has appeal, but once no loss
    points = [{"x": x} for x in values]
    assert best(STUDY, found(rows), "toy", "A", points) == {"x": 3}
    assert best(STUDY, found(diverged), "toy", "A", points) == {"x": 2}
    tied = [
        (m, x, s, metric, 0.0 if metric == "gm_appeal" else float(x)) for m, x, s, metric, _ in rows
    ]
    assert best(STUDY, found(tied), "toy", "A", points) == {"x": 3}, "ties by preferred accuracy"
    with pytest.raises(InputError, match="every configuration of A on toy diverged"):
        best(STUDY, found([(*row[:4], np.nan) for row in rows]), "toy", "A", points)


def outcome(figures):
    """A finished study of {method: (figure of each seed)} for one column of tab:unseen."""
    rows = [(m, s, v) for m, values in figures.items() for s, v in enumerate(values)]
    methods, seeds, values = zip(*rows, strict=True)
    count = len(rows)
    words = {"part": "FMNIST", "clients": "unseen", "model": "global", "metric": "gm_appeal"}
    table = pa.table({
        "method": methods, "seed": seeds, "value": np.array(values, np.float32),
        "round": [200] * count, **{k: [w] * count for k, w in words.items()},
    })  # fmt: skip
    about = {
        "data": {"FMNIST": "toy data"},
        "chosen": {"FMNIST": {}},
        "scale": "a toy",
        "troubles": [],
        "data_notes": {"FMNIST": ""},
    }
    return Outcome(table, about, "nowhere")


def only_appeal(name):
    experiment = EXPERIMENTS[name]
    return experiment._replace(
        columns=tuple(c for c in experiment.columns if c.metric == "gm_appeal")
    )


def remarks(figures):
    """What is said of the methods' order."""
    (table,) = compare(only_appeal("tab:unseen"), outcome(figures))
    return table.remarks


def test_ours_stands_above_the_papers():
    figures = {"FedAvg": (0.1, 0.3), "MaxFL": (0.5, 0.5)}
    (table,) = compare(only_appeal("tab:unseen"), outcome(figures))
    assert table.rows == [
        ["FedAvg", "0.20 ± 0.14"], ["   paper", "0.08 ± 0.01"],
        ["MaxFL", "0.50 ± 0.00"], ["   paper", "0.55 ± 0.0"],
    ]  # fmt: skip
    assert table.remarks == ["unseen, GM-Appeal: the same order as in the paper."]


def test_a_lead_within_the_spread_of_seeds_is_said():
    assert remarks({"FedAvg": (0.1, 0.5), "MaxFL": (0.4, 0.4)}) == [
        "unseen, GM-Appeal: the same order as in the paper (no further ahead than seeds differ)."
    ]


def test_another_order_is_said_plainly():
    (remark,) = remarks({"FedAvg": (0.6, 0.7), "MaxFL": (0.5, 0.5), "MW-Fed": (0.5, 0.5)})
    assert "THE ORDER DIFFERS: here FedAvg > MW-Fed = MaxFL; in the paper MaxFL > " in remark


def test_a_winner_that_is_not_ahead_is_said_plainly():
    (remark,) = remarks({"FedAvg": (0.0, 0.0), "MaxFL": (0.001, 0.0)})
    assert "THE PAPER'S FIRST, MaxFL, IS NOT AHEAD: here FedAvg = MaxFL" in remark


def test_one_seed_makes_no_order():
    (remark,) = remarks({"FedAvg": (0.6,), "MaxFL": (0.5,)})
    assert remark == "unseen, GM-Appeal: one seed, so no order of methods."


TINY = Study(
    "tiny",
    (
        Part(
            "toy",
            {
                "data.clients": 6, "data.unseen": 2, "data.samples": 20, "training.rounds": 4,
                "training.cohort": 2, "requirement.steps": 5, "model.hidden": [8],
            },
            {"training.local_lr": 0.1},
        ),
    ),
    (Method("FedAvg", {"algorithm.name": "fedavg"}), Method("MaxFL", {"algorithm.name": "maxfl"})),
    {"training.local_lr": (0.1, 0.01), "training.local_steps": (1, 2)},
    "test_accuracy",
)  # fmt: skip
FULL = SCALES["full"]._replace(seeds=2, every=2)


class CutOffError(Exception):
    """Stands for Ctrl-C, a full disk, a killed process."""


def stages(cut_off=None, seen=None):
    """Progress of a study that may be cut off in a stage."""

    @contextmanager
    def stage(name):
        def parts(group, groups):
            def report(what, *_):
                if seen is not None:
                    seen.append((name, group, what))
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
    assert len(set(search["configuration"].to_pylist())) == 2 * 4 * 2
    about = maxfl.runs.read_json(tiny / ABOUT)
    chosen = about["chosen"]["toy"]["MaxFL"]
    assert chosen in [
        {"training.local_lr": a, "training.local_steps": b} for a in (0.1, 0.01) for b in (1, 2)
    ]
    settings = maxfl.runs.read_json(tiny / "search/experiment.json")["configurations"].values()
    assert {s["data"]["evaluate_on"] for s in settings} == {"validation"}
    settings = maxfl.runs.read_json(tiny / "final/experiment.json")["configurations"].values()
    assert {s["data"]["evaluate_on"] for s in settings} == {"test"}
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
    seen = []
    run_study(TINY, FULL, folder, stages(seen=seen), resume=True)
    assert ("search", 0, "solo training") not in seen, "what was finished is not run again"
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
    experiment = Experiment("fig:toy", "a toy", TINY, columns, drawn=True)
    draw(experiment, read(tiny, TINY.name), tmp_path / "toy.png")
    assert (tmp_path / "toy.png").stat().st_size > 10_000
    tables = compare(experiment, read(tiny, TINY.name))
    assert [row[0] for row in tables[0].rows] == ["FedAvg", "MaxFL"]


def test_what_is_kept_is_whole():
    folders = [p.parent for p in kept("").glob("*/" + ABOUT)]
    assert folders
    studies = {e.study.name: e for e in EXPERIMENTS.values()}
    for folder in folders:
        outcome = read(folder, folder.name)
        assert outcome.about["scale"].startswith("full")
        experiment = studies[folder.name]
        for part in outcome.parts:
            for method in outcome.about["chosen"][part]:
                column = next(c for c in experiment.columns if c.part == part)
                assert len(outcome.final(method, column)) == 3


def blobs(shift):
    """A client whose labels 0 and 1, or 2 and 3, sit around two points."""
    y = np.arange(40) % 2
    x = np.eye(2)[y] * 2 + np.random.default_rng(shift).normal(size=(40, 2)) * 0.1
    return np.hstack([x, np.full((40, 1), float(shift % 2))]), y + 2 * (shift % 2)


def test_the_limit_of_two_clusters():
    clients = [blobs(k) for k in range(6)]
    fed = maxfl.Federation.from_clients(clients, clients, unseen=2)
    np.testing.assert_array_equal(cluster_of(fed), [0, 1, 0, 1, 0, 1])
    models = union_models(fed, maxfl.mlp(3, (8,), 4), 0, (50, 400))
    assert set(models) == {(0,), (1,), (0, 1)}
    bar = np.full(6, 0.3)
    one = at_best((0,), models[0,], bar, 4)
    assert (one.seen, one.unseen) == (0.5, 0.5), "it never saw the other cluster's labels"
    both = at_best((0, 1), models[0, 1], bar, 4)
    assert (both.seen, both.unseen) == (1.0, 1.0)
    assert at_best((0,), models[0,], np.zeros(6), 4).seen == 0.0


def command(*arguments):
    """What `maxfl paper` prints, in this process; a user's mistake is raised."""
    done = CliRunner().invoke(app, ["paper", *map(str, arguments)], color=False)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_the_list_names_everything():
    text = command("list")
    for name in (*EXPERIMENTS, "limit", "fig:incent", "fig:mean", "fig:mean2", "fig:lrtheo"):
        assert name in text


def test_kept_runs_are_shown_beside_the_papers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = command("show", "tab:testacc")
    assert "43.70 ± 0.02" in text, "the paper's figures stand as printed"
    assert "THE ORDER DIFFERS" in text
    assert "MW-Fed: nobody willing from round 11 on (seeds 0, 1, 2)" in text
    assert "STAND-IN" in command("show", "tab:unseen")
    assert "η_l = 0.05" in command("show", "sensitivity")
    assert "best, seen" in command("show", "limit")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "tab:nothing"), "experiment = 'tab:nothing': want one of tab:testacc"),
        (("show", "tab:nothing"), "want one of"),
        (("show", "fig:mean"), "runs in seconds and is not kept: maxfl paper run fig:mean"),
        (("show", "tab:testacc", "--out", "nowhere"), "nowhere holds no finished study"),
        (("show", "limit", "--out", "nowhere"), "nowhere holds no finished limit"),
        (("show", "fig:syn"), "no finished run of the study synthetic is in runs/paper"),
        (("run", "tab:testacc", "--part", "MNIST"), "--part = 'MNIST': want one of FMNIST, EMNIST"),
        (("run", "fig:mean", "--seeds", 2), "--seeds does nothing for fig:mean"),
        (("run", "limit", "--part", "FMNIST"), "--part does nothing for limit"),
        (("run", "tab:testacc", "--out", "file"), "can't use file as a folder"),
    ],
)
def test_mistakes_are_told(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(InputError, match=re.escape(words)):
        command(*arguments)


def test_missing_data_are_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("MAXFL_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr("maxfl.data.sources.DEBIAN", str(tmp_path), raising=False)
    monkeypatch.setattr("maxfl.data.locate.fetch", unreachable)
    with pytest.raises(InputError, match="is not here"):
        command("run", "tab:testacc", "--part", "EMNIST")


def unreachable(*_, **__):
    raise UnavailableError("no network")


def test_theory_runs_from_here_too(tmp_path):
    assert "q" in command("run", "fig:incent", "--out", tmp_path)
    assert list(tmp_path.glob("*.png"))


def test_the_papers_own_data_are_taken_where_they_are(tmp_path, monkeypatch):
    study = EXPERIMENTS["tab:testacc"].study
    monkeypatch.setattr("maxfl.paper.study.find", lambda *_: None)
    assert with_the_papers_data(study) == study
    monkeypatch.setattr("maxfl.paper.study.find", lambda *_: tmp_path)
    fmnist, emnist = with_the_papers_data(study).parts
    assert fmnist == study.parts[0]
    assert (emnist.settings["data.part"], emnist.note) == ("both", "")
    _, tweets = with_the_papers_data(EXPERIMENTS["tab:unseen"].study).parts
    data = data_of(tweets)
    assert (data.source, data.partition, data.unseen) == ("sent140", "by-owner", 619)


def test_a_model_that_diverges_is_not_chosen(tmp_path):
    study = TINY._replace(
        grid={"training.local_lr": (1e30, 0.1), "training.local_steps": (1, 2)},
        methods=TINY.methods[:1],
        name="blown-up",
    )
    run_study(study, FULL._replace(seeds=1), tmp_path / "out", stages())
    chosen = maxfl.runs.read_json(tmp_path / "out" / ABOUT)["chosen"]["toy"]["FedAvg"]
    assert chosen["training.local_lr"] == 0.1


def test_configurations_that_fail_are_named_and_the_others_kept(tmp_path, monkeypatch):
    folder = tmp_path / "out"
    real = sweep.run

    def run(simulation, *arguments, **options):
        if simulation.plan.algorithm.name == "maxfl":
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: no memory\nand a long trace")
        return real(simulation, *arguments, **options)

    monkeypatch.setattr(sweep, "run", run)
    quick = SCALES["quick"]._replace(rounds=4)
    with pytest.raises(
        InputError, match="1 of 2 configurations failed: part = toy, method = MaxFL"
    ):
        run_study(TINY, quick, folder, stages())
    monkeypatch.setattr(sweep, "run", real)
    run_study(TINY, quick, folder, stages(), resume=True)
    about = maxfl.runs.read_json(folder / ABOUT)
    assert about["seconds"] is None, "the time of a study in two sittings is not known"
