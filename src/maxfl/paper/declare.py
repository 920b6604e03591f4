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
    "test_accuracy", "gm_appeal", "preferred_accuracy", "judging_loss", "test_loss", "solo_accuracy"
]


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
        label: As in the paper's tables.
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


class Study(NamedTuple):
    """Runs that one or more exhibits show.

    Attributes:
        name: Of its folder.
        parts: What every method is run with.
        methods: What is compared.
        grid: What is searched for each method and part, by setting.
        chosen_by: The metric of the seen clients, on validation data, whose best point is taken.
        model: Whose model counts.
    """

    name: str
    parts: tuple[Part, ...]
    methods: tuple[Method, ...]
    grid: dict[str, tuple[Any, ...]]
    chosen_by: Metric
    model: Whose = "global"

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
        is_figure: Whether it is a figure: every column over the rounds.
        by_part: Whether its table has a row for each part and a column for each method.
    """

    name: str
    title: str
    study: Study
    columns: tuple[Column, ...]
    methods: tuple[str, ...] = ()
    is_figure: bool = False
    by_part: bool = False

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
