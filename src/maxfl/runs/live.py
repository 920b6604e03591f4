"""A page that follows work in progress, served on this machine alone.

It asks again and again how far the work in its folders is; once all of it is finished, it becomes
the page of a report. Only files are read, so the runs do not notice, and none is written.
"""

import html
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from maxfl.report.page import fill
from maxfl.report.style import COLOURS
from maxfl.runs.inline import report
from maxfl.runs.watch import Status, read_status
from maxfl.utils.errors import InputError

LOOPBACK = "127.0.0.1"
EVERY = 1.0
"""Seconds between two questions of the page."""
SCRIPTS = ("base.js", "live.js")


class LivePage:
    """What is shown of some folders at any moment.

    Args:
        folders: Of runs, sweeps or studies, begun or finished.
        title: Of the page; by default the names of the folders.
    """

    def __init__(self, folders: Sequence[Path], title: str | None = None) -> None:
        self.folders, self.title = list(folders), title
        for folder in self.folders:
            read_status(folder)  # a wrong folder is refused before anything is served
        self._report: str | None = None
        self._lock = threading.Lock()

    def status(self) -> dict[str, Any]:
        """Return how far the work is, as the page reads it."""
        seen = [read_status(folder) for folder in self.folders]
        return {
            "finished": all(status.finished for status in seen),
            "work": list(map(_shown, self.folders, seen)),
        }

    def page(self) -> str:
        """Return the page of the report if all work is finished, else the one that follows it."""
        if not all(read_status(folder).finished for folder in self.folders):
            self._report = None  # of a run that was finished before, and is run anew
            return self._following()
        with self._lock:  # two browsers, one report
            if self._report is None:
                self._report = report(self.folders, title=self.title).html
            return self._report

    def _following(self) -> str:
        names = " and ".join(folder.resolve().name for folder in self.folders)
        return fill("live.html", SCRIPTS, {
            "title": html.escape(self.title or names),
            "data": json.dumps({"colours": COLOURS, "every": 1000 * EVERY}),
        })  # fmt: skip

    @contextmanager
    def served(self, port: int = 0) -> Iterator[str]:
        """Serve the page while the context lasts, and give its address; port 0 is any free one."""
        try:
            server = ThreadingHTTPServer((LOOPBACK, port), partial(_Handler, self))
        except OSError as error:
            raise InputError(
                f"can't serve a page on port {port}: {error.strerror}; choose another with --port"
            ) from error
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{server.server_address[1]}/"
        finally:
            server.shutdown()
            server.server_close()


def _shown(folder: Path, status: Status) -> dict[str, Any]:
    """Lay out the work in one folder for the page."""
    measures = status.measures
    return {
        "name": folder.resolve().name,
        "headline": status.headline,
        "trouble": status.trouble,
        "done": status.done,
        "total": status.total,
        "rounds": status.trail.get("round", []),
        "end": status.trail_end,
        "measures": [
            {"words": m.words, "percent": m.percent, "values": status.trail.get(m.key, [])}
            for m in measures
        ],
        "rows": [
            [label, *(m.printed(latest.get(m.key)) for m in measures)]
            for label, latest in status.rows
        ],
        "warnings": list(dict.fromkeys(status.warnings)),
    }


class _Handler(BaseHTTPRequestHandler):
    """Answers a browser of this machine."""

    def __init__(self, live: LivePage, *arguments: Any) -> None:
        self._live = live
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Send the page, or how far the work is."""
        # Under another name a page from elsewhere could read this one (DNS rebinding). The port may
        # differ: that of a tunnel from another machine.
        if self.headers.get("Host", "").rpartition(":")[0] not in (LOOPBACK, "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        answers = {
            "/": ("text/html", self._live.page),
            "/status.json": ("application/json", lambda: json.dumps(self._live.status())),
        }
        if self.path not in answers:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        kind, content = answers[self.path]
        try:
            self._send(kind, content())
        except ConnectionError:
            pass  # the browser did not wait
        except Exception as error:  # such as a folder that was removed; the next answer may be fine
            said = str(error) if isinstance(error, InputError) else f"can't be read now: {error!r}"
            self._send("text/plain", said, HTTPStatus.INTERNAL_SERVER_ERROR)

    def _send(self, kind: str, content: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        body = content.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: the terminal shows the address alone."""
