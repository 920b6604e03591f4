"""The report's page in a real browser."""

import re
import time

import pytest

from maxfl.report.write import write_report
from support.browser import Page, browser
from support.made_runs import make_history, settings_of, write_run

WIDTHS = (pytest.param(390, marks=pytest.mark.slow), 1440)


@pytest.fixture(scope="module")
def running():
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    runs = [
        write_run(
            folder / f"{name}-{seed}",
            make_history(30, 20, unseen=6, drift=drift, seed=seed),
            settings_of(name),
            seed,
            f"federation {seed}",
        )
        for name, drift in (("fedavg", 0.03), ("maxfl", 0.08))
        for seed in (0, 1)
    ]
    return write_report(runs, folder / "report", figures=False).folder / "report.html"


@pytest.fixture(params=WIDTHS)
def opened(request, running, path):
    page = Page(running, path, request.param)
    yield page
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("file:", "blob:"))] == []
    page.page.close()


def places(page):
    dots = page.page.locator("#chart-weights circle.client")
    return dots.evaluate_all(
        "all => all.map(dot => [dot.getAttribute('cx'), dot.getAttribute('cy')])"
    )


def test_it_fits_the_screen(opened):
    wide, screen = opened.page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide == screen


def test_the_slider_moves_the_clients(opened):
    before = places(opened)
    assert len(before) == 24  # the seen ones
    slider = opened.page.locator("#round")
    assert opened.page.inner_text("#round-shown") == "20"
    slider.fill("0")
    after = places(opened)
    assert opened.page.inner_text("#round-shown") == "0"
    assert sum(a != b for a, b in zip(before, after, strict=True)) > 20
    assert "After round 0" in opened.page.inner_text("#round-readout")
    slider.press("ArrowRight")
    assert opened.page.inner_text("#round-shown") == "1"


def test_tables_sort(opened):
    opened.page.click("#table-summary th:has-text('GM-Appeal') button")
    values = [float(v) for v in opened.column("table-summary", 4)]
    assert values == sorted(values)
    opened.page.click("#table-summary th:has-text('GM-Appeal') button")
    assert opened.column("table-summary", 4) == [f"{v:.2f}" for v in sorted(values, reverse=True)]
    opened.page.click("#table-comparison th:has-text('clients only A') button")
    values = [float(v) for v in opened.column("table-comparison", 8)]
    assert values == sorted(values)
    opened.page.click("#table-everyone th:has-text('client') button")
    names = opened.column("table-everyone", 1)
    assert names == [str(k) for k in range(20)]  # numbers as numbers: 2 before 10
    opened.page.click("#more")
    assert len(opened.column("table-everyone", 1)) == 30


def test_clients_are_found_and_chosen(opened):
    opened.page.fill("#find", "17")
    assert opened.column("table-everyone", 1) == ["17"]
    opened.page.click("#table-everyone tbody tr")
    assert "Client 17" in opened.page.inner_text("#heat-readout")
    opened.page.fill("#find", "nobody")
    assert opened.column("table-everyone", 1) == ["No client matches."]


def test_methods_and_seeds_are_chosen(opened):
    assert opened.page.input_value("#method") == "1"  # MaxFL satisfies more
    before = places(opened)
    opened.page.select_option("#method", label="FedAvg")
    opened.page.wait_for_selector("#everyone-of:has-text('FedAvg')")
    assert places(opened) != before
    assert "does not use this weight" in opened.page.inner_text("#weights-hint")
    opened.page.select_option("#seed", "1")
    opened.page.wait_for_selector("#everyone-of:has-text('seed 1')")
    opened.page.check("input[value=unseen]")
    assert "Round 20: FedAvg" in opened.page.inner_text("#chart-appeal")


def test_clients_that_one_or_both_methods_satisfy_add_up(opened):
    counts = [int(text) for text in opened.page.locator("#pair-result b").all_inner_texts()]
    assert sum(counts) == 24
    opened.page.select_option("#pair-b", label="MaxFL")
    opened.page.wait_for_selector("#pair-result .empty")
    assert opened.page.inner_text("#pair-result") == "Choose two methods."


def test_heat_map_is_drawn_and_tells(opened):
    colours = opened.page.evaluate(
        "(() => { const c = document.getElementById('heat'); const d = c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data; const s = new Set();"
        "for (let i = 0; i < d.length; i += 4) s.add([d[i], d[i+1], d[i+2]].join());"
        "return s.size; })()"
    )
    assert colours > 3
    opened.page.hover("#heat", position={"x": 5, "y": 5})
    assert re.search("round 0: (not )?satisfied", opened.page.inner_text("#heat-readout"))
    opened.page.select_option("#layer", "sampled")
    assert "sampled, participated" in opened.page.inner_text("#heat-legend")


@pytest.mark.slow
def test_seven_methods_with_500_clients_over_200_rounds(running, tmp_path):
    names = ("fedavg", "fedprox", "scaffold", "mwfed", "qffl", "afl", "maxfl")
    runs = [
        write_run(tmp_path / name, make_history(500, 200, 10, 100, 0.01 * i, 0), settings_of(name))
        for i, name in enumerate(names)
    ]
    path = write_report(runs, tmp_path / "report", figures=False).folder / "report.html"
    assert path.stat().st_size < 10e6
    seconds = []
    for _ in range(2):  # the better of two: other tests are running
        began = time.monotonic()
        page = Page(running, path, 1440)
        seconds.append(time.monotonic() - began)
    assert min(seconds) < 3
    assert page.complaints == []
    assert len(page.page.query_selector_all("#method option")) == 7
    page.page.close()


COLOURS = """() => {
  const of = (place, name, part) => getComputedStyle(document.querySelector(place), part)[name];
  document.querySelector("th button").focus();
  return {
    paper: of("body", "backgroundColor"), text: of("body", "color"), hint: of(".hint", "color"),
    link: of("nav a", "color"), arrow: of("th button", "color", "::after"),
    ring: of("th button", "outlineColor"), axis: of("#chart-appeal text", "fill"),
    figure: of("figure", "backgroundColor"),
  };
}"""


def luminance(colour):
    """Relative luminance of WCAG 2."""
    parts = [int(v) / 255 for v in re.findall(r"\d+", colour)[:3]]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read_by_day_and_by_night(running, path, scheme):
    opened = Page(running, path, 1440)
    opened.page.emulate_media(color_scheme=scheme)
    opened.page.keyboard.press("Tab")  # so that what has the focus shows it
    found = opened.page.evaluate(COLOURS)
    paper = found["paper"]
    assert (luminance(paper) < 0.05) == (scheme == "dark")
    assert all(contrast(found[name], paper) >= 3 for name in ("ring", "arrow"))
    assert all(contrast(found[name], paper) >= 4.5 for name in ("text", "hint", "link"))
    under = found["figure"] if scheme == "dark" else paper  # by day figures have no paper of theirs
    assert contrast(found["axis"], under) >= 4.5
    opened.page.close()


def test_a_title_of_ones_own_is_escaped(tmp_path):
    run = write_run(tmp_path / "run", make_history(6, 4), settings_of("maxfl"), 0, "federation")
    made = write_report(run, tmp_path / "report", figures=False, title="Wards <1 & 2>")
    page = (made.folder / "report.html").read_text(encoding="utf-8")
    assert "<h1>Wards &lt;1 &amp; 2&gt;</h1>" in page


def test_the_main_figure_is_in_view_on_a_phone(running, path):
    opened = Page(running, path, 390)
    opened.page.set_viewport_size({"width": 390, "height": 844})
    box = opened.page.locator("#chart-appeal svg").bounding_box()
    assert box["y"] > 0
    assert box["y"] + box["height"] <= 844
    assert not opened.page.is_visible("#glance")  # one tap away
    opened.page.click("summary:has-text('Settings')")
    assert opened.page.is_visible("#glance")
    opened.page.click("summary:has-text('Settings')")
    opened.page.set_viewport_size({"width": 844, "height": 390})  # turned round
    opened.page.wait_for_selector("#glance", state="visible")
    opened.page.close()


REACHED = """() => {
  const one = document.activeElement;
  return one.id || `${one.closest("[id]")?.id} ${one.tagName} ${(one.textContent || "").trim()}`;
}"""


@pytest.mark.slow
def test_everything_is_reached_and_moved_by_keys(running, path):
    opened = Page(running, path, 1440)
    keys, page = opened.page.keyboard, opened.page
    reached = []
    for _ in range(400):
        keys.press("Tab")
        place = page.evaluate(REACHED)
        if place.endswith("BODY") or (reached and place == reached[0]):
            break
        reached.append(place)
    for name in ("case", "method", "seed", "round", "play", "layer", "order", "heat", "pair-a",
                 "pair-b", "pair-seed", "find", "which", "more"):  # fmt: skip
        assert name in reached or not page.is_visible(f"#{name}"), name
    assert any(place.startswith("chart-appeal svg") for place in reached)
    assert any("SUMMARY" in place for place in reached)
    page.focus("#chart-appeal svg")
    keys.press("Home")
    assert "Round 0:" in page.inner_text("#chart-appeal")
    keys.press("ArrowRight")
    assert "Round 1:" in page.inner_text("#chart-appeal")
    page.focus("#heat")
    keys.press("ArrowDown")
    chosen = page.inner_text("#heat-readout")
    assert chosen.startswith("Client ")
    keys.press("ArrowDown")
    assert page.inner_text("#heat-readout") != chosen
    keys.press("ArrowLeft")
    assert "round 19" in page.inner_text("#heat-readout")
    page.focus("#table-everyone tbody tr:nth-child(3) button")
    keys.press("Enter")
    row = page.locator("#table-everyone tbody tr:nth-child(3)")
    assert "chosen" in row.get_attribute("class")
    assert row.locator("button").get_attribute("aria-pressed") == "true"
    page.focus("#table-everyone th:nth-child(1) button")
    keys.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "client"  # the focus stays
    page.focus("#table-summary th:nth-child(4) button")
    keys.press("Space")
    assert page.locator("#table-summary th:nth-child(4)").get_attribute("aria-sort") == "ascending"
    assert opened.complaints == []
    page.close()


@pytest.mark.slow
def test_it_prints_on_paper(running, path):
    opened = Page(running, path, 390)  # where settings are folded on the screen
    opened.page.emulate_media(media="print", color_scheme="dark")
    opened.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert not opened.page.is_visible("nav")
    assert not opened.page.is_visible("#play")
    assert opened.page.is_visible("#glance")
    assert luminance(opened.page.evaluate("getComputedStyle(document.body).color")) < 0.1
    assert opened.page.pdf(format="A4").startswith(b"%PDF")
    opened.page.close()


def test_personal_models_are_curves_and_compared(running, tmp_path):
    runs = [
        write_run(
            tmp_path / name,
            make_history(12, 6, drift=0.1, seed=0, personal=personal),
            settings_of(name),
        )
        for name, personal in (("fedavg", None), ("ditto", 0.8))
    ]
    made = write_report(runs, tmp_path / "report", figures=False).folder / "report.html"
    opened = Page(running, made, 1440)
    assert "Ditto (personal models)" in opened.page.inner_text("#legend")
    assert "Ditto, global model" in opened.page.inner_text("#legend")
    assert "Ditto, global model" in opened.page.inner_text("#chart-appeal")
    assert "Ditto (personal models)" in opened.page.inner_text("#table-comparison")
    counts = [int(text) for text in opened.page.locator("#pair-result b").all_inner_texts()]
    assert sum(counts) == 12
    opened.page.close()


def test_two_methods_on_many_data_sets_are_a_phase_diagram(running, tmp_path):
    runs = [
        write_run(
            tmp_path / f"{name}-{alpha}-{clients}",
            make_history(12, 6, drift=drift, seed=clients),
            settings_of(name) | {"data": {"alpha": alpha, "clients": clients}},
            0,
            f"{alpha} {clients}",
        )
        for alpha in (0.1, 1.0)
        for clients in (12, 100)
        for name, drift in (("fedavg", 0.05), ("maxfl", 0.3))
    ]
    made = write_report(runs, tmp_path / "report", figures=False).folder / "report.html"
    opened = Page(running, made, 1440)
    assert not opened.page.is_visible(".verdict details p")
    opened.page.click("summary:has-text('The same for 3 other data sets')")
    assert opened.page.locator(".verdict details p:visible").count() == 3
    leads = opened.page.locator(".phases td b").all_inner_texts()
    assert len(leads) == 4
    assert all(lead.startswith("+") for lead in leads)  # MaxFL is A
    for cell in opened.page.locator(".phases td").all():
        ink, paper = cell.evaluate(
            "one => [getComputedStyle(one).color, getComputedStyle(one).backgroundColor]"
        )
        assert contrast(ink, paper) >= 4.5
    opened.page.select_option("#phase-a", "FedAvg")
    opened.page.select_option("#phase-b", "MaxFL")
    turned = opened.page.locator(".phases td b").all_inner_texts()
    assert [lead.replace("+", "-") for lead in leads] == turned
    assert opened.complaints == []
    opened.page.close()


def test_named_clients_are_counted_over_seeds(running, tmp_path):
    def history(seed):
        return make_history(6, 4, drift=0.2, seed=seed)

    runs = [
        write_run(tmp_path / str(s), history(s), settings_of("maxfl"), s, f"split {s}",
                  names=["Bonn", "Celle", "Gera", "Hamm", "Jena", "Ulm"])
        for s in (0, 1, 2)
    ]  # fmt: skip
    made = write_report(runs, tmp_path / "report", figures=False).folder / "report.html"
    opened = Page(running, made, 1440)
    finals = [history(s) for s in (0, 1, 2)]
    satisfied = sum(
        (h.evaluation.test_loss < h.thresholds.test[:, None])[0, -1].astype(int) for h in finals
    )
    opened.page.click("#table-everyone th:has-text('client') button")
    assert opened.column("table-everyone", 1)[0] == "Bonn"
    assert opened.column("table-everyone", 3) == [f"{n} of 3" for n in satisfied]
    opened.page.close()
