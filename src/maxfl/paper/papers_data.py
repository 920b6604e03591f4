"""The data of a study: the paper's own where they are found, else what stands for them."""

from maxfl.config import override_all, validate
from maxfl.data.catalogue import entry
from maxfl.data.locate import find
from maxfl.paper.declare import Part, Study
from maxfl.settings import DataConfig


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
