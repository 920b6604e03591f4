"""The studies of portfolios: what is declared, and what shares a program."""

from maxfl.paper.portfolio import PERSONAL_STUDY, PORTFOLIO_STUDY
from maxfl.paper.study import configure
from maxfl.runs.build import group


def configs(study, part):
    return [configure(part, method, part.typical, {}, 0).config for method in study.methods]


def test_all_methods_face_one_requirement_and_schedule_and_as_many_points():
    assert PERSONAL_STUDY.grid == PORTFOLIO_STUDY.grid
    assert PERSONAL_STUDY.search_seeds == PORTFOLIO_STUDY.search_seeds
    for part in PERSONAL_STUDY.parts:
        found = configs(PORTFOLIO_STUDY, part) + configs(PERSONAL_STUDY, part)
        assert len({c.requirement for c in found}) == 1
        assert len({c.schedule for c in found}) == 1
        assert len({c.training for c in found}) == 1
        assert {c.participation.rule for c in found} == {"everyone"}


def test_portfolios_of_a_method_share_a_program_where_many_run_at_once():
    part = PORTFOLIO_STUDY.parts[0]
    names = [c.algorithm.name for c in configs(PORTFOLIO_STUDY, part)]
    assert names.count("ifca") == names.count("hypcluster") == 3
    assert names.count("maxfl-auto") == 4
    assert len(group(configs(PORTFOLIO_STUDY, part), mask_batches=True)) == 5
    assert len(group(configs(PORTFOLIO_STUDY, part), mask_batches=False)) == len(names)
