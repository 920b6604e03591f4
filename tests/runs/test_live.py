"""The live page: it follows a run in a real browser, and ends as its report."""

import shutil
import urllib.error
import urllib.request

import pytest

import maxfl
from maxfl.runs.live import LivePage
from maxfl.runs.results import write_history
from maxfl.utils.errors import InputError
from maxfl.utils.files import write_json
from support.browser import browser
from support.made_runs import make_history, started, with_origin


@pytest.fixture(scope="module")
def running():
    with browser() as one:
        yield one


@pytest.mark.slow
def test_the_page_follows_a_run_and_becomes_its_report(running, tmp_path):
    progress = started(tmp_path / "run")
    with LivePage([tmp_path / "run"], title="Wards <1>").served() as address:
        page = running.new_page(viewport={"width": 390, "height": 844})
        complaints = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        assert page.inner_text("h1") == "Wards <1>"
        assert "4 of 10 rounds" in page.inner_text(".headline")
        assert page.locator("progress").get_attribute("value") == "4"
        assert page.locator("figure svg").count() == 3
        assert "seed 3" in page.inner_text("table")
        wide, screen = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= screen

        progress.state = progress.state._replace(at=0)  # long ago: written at once
        progress.warn(["clients leave"])
        progress.report("rounds", 7, 10)
        page.wait_for_selector(".headline:has-text('7 of 10 rounds')")
        assert page.inner_text(".notes") == "clients leave"

        history = with_origin(make_history(6, 4), maxfl.maxfl())
        finished = write_history(history, tmp_path / "finished")
        for file in finished.iterdir():
            shutil.copy(file, tmp_path / "run")
        page.wait_for_selector("#chart-appeal svg")
        assert page.inner_text("h1") == "Wards <1>"
        assert complaints == []
        page.close()


def test_a_run_that_stopped_says_so(running, tmp_path):
    started(tmp_path / "run", stopped="the disk is full")
    with LivePage([tmp_path / "run"]).served() as address:
        page = running.new_page()
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        assert "stopped (the disk is full)" in page.inner_text("#work .warning")
        shutil.rmtree(tmp_path / "run")
        page.wait_for_selector("#failed:not([hidden])")
        assert "is no folder" in page.inner_text("#failed")
    page.wait_for_selector("#lost:not([hidden])")
    page.close()


def test_it_answers_this_machine_alone(tmp_path):
    started(tmp_path / "run")
    with LivePage([tmp_path / "run"]).served() as address:
        assert address.startswith("http://127.0.0.1:")
        for path, headers, status in (
            ("", {"Host": "elsewhere.example"}, 403),
            ("", {"Host": "127.0.0.1.example:80"}, 403),
            ("../../etc/passwd", {}, 404),
            ("run/experiment.json", {}, 404),
        ):
            request = urllib.request.Request(address + path, headers=headers)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request)
            assert refused.value.code == status
            refused.value.close()


def test_it_answers_through_a_tunnel(tmp_path):
    started(tmp_path / "run")
    with LivePage([tmp_path / "run"]).served() as address:
        request = urllib.request.Request(address, headers={"Host": "localhost:9000"})
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200


def test_a_file_that_is_damaged_now_may_be_whole_in_a_moment(tmp_path):
    started(tmp_path / "run")
    page = LivePage([tmp_path / "run"])
    whole = (tmp_path / "run/progress.json").read_bytes()
    with page.served() as address:
        (tmp_path / "run/progress.json").write_bytes(b"[1, 2]")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}status.json")
        assert refused.value.code == 500
        assert refused.value.read()
        refused.value.close()
        (tmp_path / "run/progress.json").write_bytes(whole)
        with urllib.request.urlopen(f"{address}status.json") as answer:
            assert answer.status == 200


def test_a_run_begun_anew_is_followed_anew(tmp_path):
    history = with_origin(make_history(6, 4), maxfl.maxfl())
    folder = write_history(history, tmp_path / "run")
    page = LivePage([folder])
    first = page.page()
    assert page.page() is first  # made once
    (folder / "summary.json").rename(tmp_path / "summary.json")
    assert "in progress" in page.page()
    (tmp_path / "summary.json").rename(folder / "summary.json")
    assert page.page() is not first


def test_curves_of_a_sweep_end_where_its_runs_do(tmp_path):
    started(tmp_path / "sweep/groups/0000")
    write_json(tmp_path / "sweep/experiment.json", {"groups": {str(n): {} for n in range(10)}})
    (work,) = LivePage([tmp_path / "sweep"]).status()["work"]
    assert (work["total"], work["end"]) == (100, 10)


def test_wrong_folders_and_ports_are_refused(tmp_path):
    with pytest.raises(InputError, match="is no folder"):
        LivePage([tmp_path / "nowhere"])
    started(tmp_path / "run")
    page = LivePage([tmp_path / "run"])
    with page.served() as address:
        port = int(address.rsplit(":")[-1].strip("/"))
        with pytest.raises(InputError, match=f"port {port}.*choose another with --port"):
            page.served(port).__enter__()
