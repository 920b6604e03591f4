"""What an exhibit of the paper is made of: methods on parts, a search, and columns to show."""

from itertools import product
from typing import Any, Literal, NamedTuple

from maxfl.data.locate import find
from maxfl.data.registry import entry
from maxfl.engine.history import Whose
from maxfl.runs.configs.data import DataConfig
from maxfl.runs.configs.file import override_all, validate

Settings = dict[str, Any]
"""Settings by their dotted names, as on the command line."""
Metric = Literal[
    "test_accuracy", "gm_appeal", "gm_appeal_judging", "preferred_accuracy", "judging_loss",
    "test_loss", "solo_accuracy",
]  # fmt: skip
Layout = Literal["methods", "parts", "leads", "best", "phases", "sizes"]
"""What an exhibit's tables are.

- methods: a table for each part, with a row for each method;
- parts: one, with a row for each part and a column for each method;
- leads: for each group of parts, metric, and seen or unseen clients: methods, and what they are
  ahead of the baseline by;
- best: one, with a row for each part: the last method beside the best of the others;
- phases: the last method's leads, and their levels, with a row for each group of parts;
- sizes: one, with a row for each part and number of models.
"""


class Method(NamedTuple):
    """A method as the paper's tables call it: an algorithm with some hyper-parameters.

    Attributes:
        label: Its name in those tables.
        settings: What makes it.
        rounds_key: A setting that is set to the number of rounds, if it has one.
    """

    label: str
    settings: Settings
    rounds_key: str = ""


class Part(NamedTuple):
    """Data, model, requirement and so on that every method of a study is run with.

    Attributes:
        label: As in the paper's tables; "GROUP: HEADING" where parts are shown side by side.
        settings: What makes it.
        typical: The one point of the grid that ``quick`` takes, for all methods.
        note: What its data are not; empty where they are the paper's. A stand-in says so here.
        paper_settings: Settings to take instead, without the note, where the paper's data are
            found.
        quick: Whether ``quick`` runs it, unless it is asked for others.
    """

    label: str
    settings: Settings
    typical: Settings
    note: str = ""
    paper_settings: Settings = {}  # noqa: RUF012 (a NamedTuple, never changed)
    quick: bool = True

    @property
    def group(self) -> str:
        """What it has in common with others; its label if there are none."""
        return self.label.partition(": ")[0]

    @property
    def heading(self) -> str:
        """What is special about it in its group."""
        return self.label.partition(": ")[2] or self.label


class Study(NamedTuple):
    """Runs that one or more exhibits show.

    Attributes:
        name: Of its folder.
        parts: What every method is run with.
        methods: What is compared.
        grid: What is searched for each method and part, by setting.
        chosen_by: The metric of the seen clients whose best point is taken; on validation data,
            unless it is one of judging data, which are no test data either.
        model: Whose model counts.
        seeds: How many seeds are shown, from 0.
        search_seeds: Seeds of the search; empty for those that are shown.
        evaluate_every: Rounds between two evaluations of the final runs; None for the scale's.
        baseline: Label of the method that the others are compared with, seed by seed; empty for
            none.
    """

    name: str
    parts: tuple[Part, ...]
    methods: tuple[Method, ...]
    grid: dict[str, tuple[Any, ...]]
    chosen_by: Metric
    model: Whose = "global"
    seeds: int = 3
    search_seeds: tuple[int, ...] = ()
    evaluate_every: int | None = None
    baseline: str = ""

    @property
    def chooses_by_judging(self) -> bool:
        """Whether points are chosen by judging data alone."""
        return self.chosen_by == "gm_appeal_judging"

    @property
    def points(self) -> list[Settings]:
        """Every point of the grid."""
        return [dict(zip(self.grid, v, strict=True)) for v in product(*self.grid.values())]


class Column(NamedTuple):
    """A column of an exhibit.

    Attributes:
        part: Label of the part.
        clients: Seen or unseen.
        metric: What is measured at the end.
        model: Whose model.
    """

    part: str
    clients: str
    metric: Metric
    model: Whose = "global"


class Exhibit(NamedTuple):
    """A table or figure of the paper.

    Attributes:
        name: In the paper's source.
        title: What it shows, in words.
        study: The runs that it shows.
        columns: Its columns; a figure has one panel for each.
        methods: Labels of the methods that it shows; empty for all of the study.
        is_figure: Whether it is a figure too: every column over the rounds, or its leads.
        layout: What its tables look like.
        axes: For a figure of phases: what groups of parts differ in, and what parts of a group do.
    """

    name: str
    title: str
    study: Study
    columns: tuple[Column, ...]
    methods: tuple[str, ...] = ()
    is_figure: bool = False
    layout: Layout = "methods"
    axes: tuple[str, str] = ("", "")

    @property
    def method_labels(self) -> tuple[str, ...]:
        """Labels of the methods that it shows."""
        return self.methods or tuple(method.label for method in self.study.methods)


def data_config(part: Part) -> DataConfig:
    """Return the data that a part needs."""
    return validate(override_all({}, part.settings), part.label).data


def with_paper_data(study: Study) -> Study:
    """Return the study on the paper's data, where they are found, else on what stands for them."""
    return study._replace(parts=tuple(map(_with_paper_data, study.parts)))


def _with_paper_data(part: Part) -> Part:
    preferred = part._replace(settings=part.settings | part.paper_settings, note="")
    data = data_config(preferred)
    files = entry(data.source, data.part, data.vectors).files if part.paper_settings else ()
    return preferred if files and all(find(file, data.dir) for file in files) else part
