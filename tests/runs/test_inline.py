"""Reports and figures in a notebook: nothing is left on the disk."""

import html
import inspect
import re

import pytest
from matplotlib.figure import Figure

import maxfl
from maxfl.engine.streaming.stream import StreamedRun
from maxfl.runs import inline
from support.made_runs import (
    CLIENTS,
    ROUNDS,
    make_history,
    settings_of,
    with_origin,
    write_run,
)

MADE = make_history(CLIENTS, ROUNDS, unseen=2)
FEDAVG, MAXFL = (with_origin(MADE, method) for method in (maxfl.fedavg(), maxfl.maxfl()))


@pytest.fixture(scope="module")
def page():
    """Both methods on one page."""
    return maxfl.report([FEDAVG, StreamedRun(None, MAXFL, None)], height=640)


def test_the_page_is_shown_in_a_frame(page):
    shown = page._repr_html_()
    (inside,) = re.findall(r'srcdoc="([^"]*)"', shown)
    base = '<base href="about:srcdoc">'  # or links within the page would leave it
    assert html.unescape(inside).replace(base, "", 1) == page.html != html.unescape(inside)
    assert 'sandbox="allow-scripts"' in shown
    assert "height:640px" in shown
    assert "FedAvg" in page.html
    assert len(shown) < 200_000


def test_outside_of_a_notebook_it_says_how_to_keep_it(page, tmp_path):
    assert repr(page).startswith(f"Report({page.verdicts[0]}")
    assert '.save("report.html") writes the page' in repr(page)
    path = page.save(tmp_path / "new/report.html")
    assert path.read_text(encoding="utf-8") == page.html
    with pytest.raises(maxfl.InputError, match="is there already"):
        page.save(path)
    assert page.save(str(path), force=True) == path
    with pytest.raises(maxfl.InputError, match="can't write the page"):
        page.save(path / "below.html")


def test_no_path_of_the_machine_is_on_the_page(page, tmp_path):
    assert tmp_path.parts[1] not in page.html
    assert page.missing == ()


def test_a_folder_is_shown_and_left_as_it_was(tmp_path):
    folder = write_run(tmp_path / "one", MADE, settings_of("maxfl"))
    before = sorted(path.name for path in folder.iterdir())
    assert maxfl.report(folder).html == maxfl.report([str(folder)]).html
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (3, "results = 3: expected a history or a folder, or a list of them"),
        ([FEDAVG, 3], "3 is neither a history nor a folder"),
        ([], "there is no folder to report on"),
        (MADE, "does not say of which clients"),
        ([MAXFL, MAXFL], "leave one of them out"),
        ("nowhere", "nowhere is no folder"),
    ],
)
def test_what_can_not_be_shown_is_said(results, words):
    with pytest.raises(maxfl.InputError, match=words):
        maxfl.report(results)


def test_the_package_is_called_as_the_function():
    import maxfl.report.write  # the import sets the package's attribute; it still is callable

    assert callable(maxfl.report)
    ours, theirs = (inspect.signature(f).parameters for f in (maxfl.report, inline.report))
    assert [str(p).split(":")[0] for p in ours.values()] == ["results", "height", "title"]
    assert [*ours] == [*theirs]
    assert ours["height"].default == theirs["height"].default
    assert maxfl.report.write.write_report is maxfl.write_report


def test_curves_are_drawn_without_a_display():
    figure = MAXFL.plot()
    assert isinstance(figure, Figure)
    assert [axis.get_title(loc="left") for axis in figure.axes[:2]] == [
        "seen clients", "unseen clients"
    ]  # fmt: skip
    assert figure._repr_png_().startswith(b"\x89PNG")
