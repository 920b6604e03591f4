"""What an experiment of the paper is made of: methods on parts, a search, and columns to show."""

from itertools import product
from typing import Any, Literal, NamedTuple

from maxfl.data.locate import find
from maxfl.data.registry import entry
from maxfl.engine.history import Whose
from maxfl.runs.config import DataConfig
from maxfl.runs.config_file import override_all, validate

Settings = dict[str, Any]
"""Settings by their dotted names, as on the command line."""
Metric = Literal[
    "test_accuracy", "gm_appeal", "preferred_accuracy", "train_loss", "test_loss", "solo_accuracy"
]


class Method(NamedTuple):
    """A method as the paper's tables call it.

    Attributes:
        label: Its name there.
        settings: What makes it.
        paced: A setting that follows the number of rounds, if it has one.
    """

    label: str
    settings: Settings
    paced: str = ""


class Part(NamedTuple):
    """A setting that every method of a study meets.

    Attributes:
        label: As in the paper's tables.
        settings: Data, model, requirement and so on.
        typical: The one point of the grid that ``quick`` takes, for all methods.
        note: What its data are not; empty where they are the paper's. A stand-in says so here.
        papers: Settings to take instead, without the note, where the paper's own data are found.
        quick: Whether ``quick`` runs it, unless it is asked for others.
    """

    label: str
    settings: Settings
    typical: Settings
    note: str = ""
    papers: Settings = {}  # noqa: RUF012 (a NamedTuple, never changed)
    quick: bool = True


class Study(NamedTuple):
    """Runs that one or more of the paper's tables and figures show.

    Attributes:
        name: Of its folder.
        parts: Its settings.
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
    """A figure of a table.

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


class Experiment(NamedTuple):
    """A table or figure of the paper.

    Attributes:
        name: In the paper's source.
        what: In words.
        study: The runs that it shows.
        columns: Its figures; a drawing has one panel for each.
        methods: Labels of the methods shown; empty for all of the study.
        drawn: Whether it is a figure: every column over the rounds.
        by_part: Whether its table has a row for each part and a column for each method.
    """

    name: str
    what: str
    study: Study
    columns: tuple[Column, ...]
    methods: tuple[str, ...] = ()
    drawn: bool = False
    by_part: bool = False

    @property
    def shown(self) -> tuple[str, ...]:
        """Labels of the methods shown."""
        return self.methods or tuple(method.label for method in self.study.methods)


def data_of(part: Part) -> DataConfig:
    """The data that a part needs."""
    return validate(override_all({}, part.settings), part.label).data


def with_the_papers_data(study: Study) -> Study:
    """The study on the paper's own data, where they are found, else on what stands for them."""
    return study._replace(parts=tuple(map(_preferred, study.parts)))


def _preferred(part: Part) -> Part:
    own = part._replace(settings=part.settings | part.papers, note="")
    data = data_of(own)
    files = entry(data.source, data.part, data.vectors).files if part.papers else ()
    return own if files and all(find(file, data.dir) for file in files) else part
