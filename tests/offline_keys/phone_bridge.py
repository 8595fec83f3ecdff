"""Local HTTP between the JavaScript phone and worlds in Python.

| Request | Does |
|---|---|
| `GET /` and `GET /strict` | an empty page, and one under `POLICY` |
| `GET /phone/*.js` | the modules for a browser |
| `POST /worlds` | creates a world, with settings of `World`; returns the path prefix of the other requests |
| `POST .../box/0` | carries a message to the box, on a link |
| `POST .../do` | triggers an event: `{"what": "revoke", "device": "..."}` |
| `.../v3/sdk/...` | the app's calls |
| `POST /boxes/0` | carries a message to a box of a test |
"""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.offline_keys.phone_world import World, unb64

PHONE = Path(__file__).parents[2] / "reference/phone"
HAPPENINGS = ("seconds_pass", "power_is_cut", "revoke", "rotate", "replace_root", "begin_generation", "change", "seen")
POLICY = (  # the strictest one under which an app can run
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
PAGE = b'<!doctype html><html lang="en"><title>Phone</title><link rel="icon" href="data:,">'


class Bridge(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.worlds: list[World] = []
        self._connections: set[socket.socket] = set()
        self.boxes: list[Callable[[bytes], bytes]] = []  # outside of the worlds
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """The address by a name for which browsers provide WebCrypto."""
        return f"http://localhost:{self.server_address[1]}"

    def get_request(self) -> tuple[socket.socket, Any]:
        """Remember the connection, which a thread serves."""
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """End all connections, like the end of the process."""
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is sent in one piece
    server: Bridge

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path in ("/", "/strict"):
            self._answer(PAGE, "text/html", policy=POLICY if path == "/strict" else None)
        elif path.startswith("/phone/"):
            self._answer((PHONE / Path(path).name).read_bytes(), "text/javascript")
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
        with self.server.lock:
            said = self._said(body)
        if isinstance(said, bytes):
            self._answer(said, "application/octet-stream")
            return
        tag = f'"{hashlib.sha256(json.dumps(said).encode()).hexdigest()}"'
        is_known = self.headers.get("If-None-Match") == tag
        self._answer(b"" if is_known else json.dumps(said).encode(), "application/json", tag, 304 if is_known else 200)

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

    def _answer(
        self, body: bytes, kind: str, tag: str | None = None, status: int = 200, policy: str | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if policy:
            self.send_header("Content-Security-Policy", policy)
        if tag:
            self.send_header("ETag", tag)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def bridge(port: int = 0) -> Iterator[Bridge]:
    with Bridge(port) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
            server.end_connections()
