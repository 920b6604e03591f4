"""Downloads from a real server on this machine: resumed, verified, whole or absent."""

import errno
import hashlib
import http.server
import os
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

import maxfl
from maxfl.cli import terminal
from maxfl.data import locate
from maxfl.data.download import UnavailableError, fetch
from maxfl.data.registry import Download, File, glove_file

CONTENT = bytes(range(256)) * 20_000


class Server(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; honours ranges and sends the length unless set otherwise; can hang up."""

    ranges = True
    length = True
    hang_up_after = None
    asked = []  # noqa: RUF012 (shared on purpose: what clients asked for)

    def do_GET(self):
        if self.path.endswith("missing"):
            self.send_error(404)
            return
        first = int(self.headers.get("Range", "bytes=0-")[6:-1])
        Server.asked.append(first)
        if not Server.ranges:
            first = 0
        if first >= len(CONTENT):
            self.send_error(416)
            return
        body = CONTENT[first:]
        self.send_response(206 if Server.ranges else 200)
        if Server.length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: Server.hang_up_after])

    def log_message(self, *_):
        pass


@pytest.fixture
def url():
    Server.ranges, Server.length, Server.hang_up_after, Server.asked = True, True, None, []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/data.bin"
        server.shutdown()
        thread.join()


def good(url):
    return Download(url, f"sha256:{hashlib.sha256(CONTENT).hexdigest()}", len(CONTENT))


def inside(folder):
    """The files of a folder that are not only there to be locked."""
    return [path.name for path in folder.iterdir() if path.suffix != ".lock"]


def test_a_file_comes_whole_and_tells_how_far_it_is(url, tmp_path):
    seen = []
    path = fetch(good(url), tmp_path / "new", lambda *report: seen.append(report))
    assert path.read_bytes() == CONTENT
    assert inside(path.parent) == ["data.bin"]
    assert seen[-1] == ("data.bin", len(CONTENT), len(CONTENT))
    assert len(seen) > 1


def test_without_a_terminal_a_line_tells_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "QUIET", 0.0)
    with terminal.download_bar() as progress:
        progress("data.bin", 1_000_000, 5_120_000)
    assert "data.bin: 1 of 5 MB" in capsys.readouterr().err


@pytest.mark.parametrize("length", [True, False])
def test_an_interrupted_download_goes_on(url, tmp_path, length):
    Server.length = length
    Server.hang_up_after = 1_500_000
    with pytest.raises(UnavailableError, match="ended after 1500000 of 5120000 bytes; try again"):
        fetch(good(url), tmp_path)
    assert inside(tmp_path) == ["data.bin.partial"]
    Server.hang_up_after = None
    assert fetch(good(url), tmp_path).read_bytes() == CONTENT
    assert Server.asked == [0, 1_500_000]


def test_a_complete_partial_file_is_only_checked(url, tmp_path):
    (tmp_path / "data.bin.partial").write_bytes(CONTENT)
    assert fetch(good(url), tmp_path).read_bytes() == CONTENT
    assert Server.asked == []


def test_a_partial_file_that_is_too_long_is_thrown_away(url, tmp_path):
    (tmp_path / "data.bin.partial").write_bytes(CONTENT + b"more")
    assert fetch(good(url), tmp_path).read_bytes() == CONTENT


def test_of_two_at_once_one_downloads_and_the_other_waits(url, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(lambda _: fetch(good(url), tmp_path), range(2)))
    assert [path.read_bytes() == CONTENT for path in paths] == [True, True]
    assert Server.asked == [0]


def test_a_server_without_ranges_starts_anew(url, tmp_path):
    Server.ranges = False
    (tmp_path / "data.bin.partial").write_bytes(b"something older")
    assert fetch(good(url), tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(url, tmp_path):
    bad = Download(url, "md5:" + "0" * 32, len(CONTENT))
    with pytest.raises(maxfl.InputError, match="wrong checksum: md5"):
        fetch(bad, tmp_path)
    assert inside(tmp_path) == []


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MAXFL_DATA", raising=False)


@pytest.mark.usefixtures("own_cache")
def test_a_file_that_is_nowhere_is_downloaded_into_the_cache(url, tmp_path):
    file = File("toys", "data.bin", good(url))
    place = locate.obtain(file)
    assert place.path == tmp_path / "cache/maxfl/data/toys/data.bin"
    assert locate.obtain(file) == place
    assert len(Server.asked) == 1


@pytest.mark.usefixtures("own_cache")
def test_why_a_file_does_not_come(url, tmp_path, monkeypatch):
    gone = File("toys", "other", good(url.replace("data.bin", "missing")))
    with pytest.raises(maxfl.InputError, match=r"answers 404 Not Found\. Put other"):
        locate.obtain(gone)
    nobody = File("toys", "other", good("http://127.0.0.1:1/data.bin"))
    with pytest.raises(maxfl.InputError, match=r"can't be reached .*refused.*Put other"):
        locate.obtain(nobody)
    file = File("toys", "data.bin", good(url))

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(maxfl.InputError, match=r"toys can't be used .*No space.* XDG_CACHE_HOME"):
        locate.obtain(file)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(maxfl.InputError, match=r"can't be used .*XDG_CACHE_HOME"):
        locate.obtain(file)


@pytest.mark.usefixtures("own_cache")
def test_a_zip_without_the_file_is_not_downloaded_again(url, tmp_path):
    folder = tmp_path / "cache/maxfl/data/toys"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "data.bin", "w") as archive:
        archive.writestr("other.txt", "")
    with pytest.raises(maxfl.InputError, match=r"has no words\.txt inside"):
        locate.obtain(File("toys", "words.txt", good(url)))
    assert Server.asked == []


@pytest.mark.usefixtures("own_cache")
def test_vectors_that_nobody_offers_are_refused_before_any_download():
    with pytest.raises(maxfl.InputError, match=r"can be downloaded are glove\.6B\.50d, "):
        locate.obtain(glove_file("glove.6B.20d"))
