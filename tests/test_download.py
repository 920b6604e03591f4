"""Downloads from a real server on this machine: resumed, verified, whole or absent."""

import hashlib
import http.server
import threading

import pytest

import maxfl
from maxfl.data import locate
from maxfl.data.download import fetch
from maxfl.data.sources import Download, File

CONTENT = bytes(range(256)) * 20_000


class Server(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; honours ranges unless told not to; can hang up in the middle."""

    ranges = True
    hang_up_after = None
    asked = []  # noqa: RUF012 (shared on purpose: what clients asked for)

    def do_GET(self):  # noqa: D102
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
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: Server.hang_up_after])

    def log_message(self, *_):  # noqa: D102
        pass


@pytest.fixture
def url():
    Server.ranges, Server.hang_up_after, Server.asked = True, None, []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/data.bin"
        server.shutdown()
        thread.join()


def good(url):
    return Download(url, f"sha256:{hashlib.sha256(CONTENT).hexdigest()}", len(CONTENT))


def test_a_file_comes_whole_and_tells_how_far_it_is(url, tmp_path):
    seen = []
    path = fetch(good(url), tmp_path / "new", lambda *report: seen.append(report))
    assert path.read_bytes() == CONTENT
    assert [p.name for p in path.parent.iterdir()] == ["data.bin"]
    assert seen[-1] == ("data.bin", len(CONTENT), len(CONTENT))
    assert len(seen) > 1


def test_an_interrupted_download_goes_on(url, tmp_path):
    Server.hang_up_after = 1_500_000
    with pytest.raises(OSError, match="connection ended after 1500000"):
        fetch(good(url), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["data.bin.partial"]
    Server.hang_up_after = None
    assert fetch(good(url), tmp_path).read_bytes() == CONTENT
    assert Server.asked == [0, 1_500_000]


def test_a_complete_partial_file_is_only_checked(url, tmp_path):
    (tmp_path / "data.bin.partial").write_bytes(CONTENT)
    assert fetch(good(url), tmp_path).read_bytes() == CONTENT


def test_a_server_without_ranges_starts_anew(url, tmp_path):
    Server.ranges = False
    (tmp_path / "data.bin.partial").write_bytes(b"something older")
    assert fetch(good(url), tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(url, tmp_path):
    bad = Download(url, "md5:" + "0" * 32)
    with pytest.raises(maxfl.InputError, match="wrong checksum: md5"):
        fetch(bad, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_nowhere_is_downloaded_into_the_cache(url, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MAXFL_DATA", raising=False)
    file = File("toys", "data.bin", good(url))
    place = locate.obtain(file)
    assert place.path == tmp_path / "cache/maxfl/data/toys/data.bin"
    assert locate.obtain(file) == place
    assert len(Server.asked) == 1
    gone = File("toys", "other", Download(url.replace("data.bin", "missing"), "md5:0"))
    with pytest.raises(maxfl.InputError, match=r"can't be reached .*404.* Put other"):
        locate.obtain(gone)
