"""Local HTTP between the JavaScript phone and worlds in Python.

| Request | Does |
|---|---|
| `GET /` and `GET /phone/*.js` | an empty page, and the modules for a browser |
| `GET /strict` | the same page under a strict Content-Security-Policy |
| `POST /worlds` | creates a world, with settings of `World`; returns the path prefix of the other requests |
| `POST .../box/0` | carries a message to the box, on a link |
| `POST .../do` | triggers an event: `{"what": "revoke", "device": "..."}` |
| `.../v3/sdk/...` | the app's calls |
| `POST /boxes/0` | carries a message to a box of a test |
| `/server/v3/...` | the app's calls to the real server of a test. The connection ends if that server has stopped |
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.offline_keys.phone_world import World, unb64
from tests.support.people import fetch

PHONE = Path(__file__).parents[2] / "reference/phone"
HAPPENINGS = ("seconds_pass", "power_is_cut", "revoke", "rotate", "replace_root", "begin_generation", "change", "seen")
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
PASSED = ("authorization", "content-type", "etag", "if-none-match")  # headers of calls to a real server
PAGE = b'<!doctype html><html lang="en"><title>Phone</title>'
ICON = b'<link rel="icon" href="data:,">'


class Bridge(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.worlds: list[World] = []
        self.boxes: list[Callable[[bytes], bytes]] = []  # outside of the worlds
        self.upstream = ""  # the address of a real server
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """The address by a name for which browsers provide WebCrypto."""
        return f"http://localhost:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is sent in one piece
    server: Bridge

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/":
            self._answer(PAGE + ICON, {"Content-Type": "text/html"})
        elif path == "/strict":
            self._answer(PAGE, {"Content-Type": "text/html", "Content-Security-Policy": POLICY})
        elif path.startswith("/phone/"):
            self._answer((PHONE / Path(path).name).read_bytes(), {"Content-Type": "text/javascript"})
        else:
            self._do()

    def do_POST(self) -> None:
        self._do()

    def do_PUT(self) -> None:
        self._do()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: it would appear in the output of the tests."""

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/server/"):
            self._pass_on(body)
            return
        with self.server.lock:
            said = self._said(body)
        if isinstance(said, bytes):
            self._answer(said, {"Content-Type": "application/octet-stream"})
            return
        tag = f'"{hashlib.sha256(json.dumps(said).encode()).hexdigest()}"'
        is_known = self.headers.get("If-None-Match") == tag
        headers = {"Content-Type": "application/json", "ETag": tag}
        self._answer(b"" if is_known else json.dumps(said).encode(), headers, 304 if is_known else 200)

    def _pass_on(self, body: bytes) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() in PASSED}
        url = self.server.upstream + self.path.removeprefix("/server")
        try:
            answer = fetch(self.command, url, headers=headers, content=body)
        except httpx.ConnectError:
            self.close_connection = True
            return
        kept = {name: value for name, value in answer.headers.items() if name in PASSED}
        self._answer(answer.content, kept, answer.status_code)

    def _said(self, body: bytes) -> Any:
        """The body: bytes of the box, or JSON."""
        path, query = urlsplit(self.path).path, urlsplit(self.path).query
        if path == "/worlds":
            self.server.worlds.append(World(**json.loads(body)))
            return {"path": f"/worlds/{len(self.server.worlds) - 1}"}
        _, kind, number, *place = path.split("/")
        if kind == "boxes":
            return self.server.boxes[int(number)](body)
        world = self.server.worlds[int(number)]
        match self.command, *place:
            case "POST", "box", link:
                return world.say(int(link), body)
            case "POST", "do":
                what = json.loads(body)
                return getattr(world, HAPPENINGS[HAPPENINGS.index(what.pop("what"))])(**what)
            case "POST", "v3", "sdk", "devices", "nonce":
                return world.registration_nonce()
            case "PUT", "v3", "sdk", "devices":
                return world.put_device(unb64(json.loads(body)["registration"]))
            case "GET", "v3", "sdk", "keys":
                return world.keys(parse_qs(query)["device"][0])
            case "PUT", "v3", "sdk", "boxlog":
                return world.put_log([unb64(entry) for entry in json.loads(body)["entries"]])
            case "POST", "v3", "sdk", "time":
                asked = json.loads(body)
                return world.time(asked["box"], unb64(asked["nonce"]))
            case _:
                raise AssertionError(self.path)

    def _answer(self, body: bytes, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def bridge() -> Iterator[Bridge]:
    with Bridge() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
