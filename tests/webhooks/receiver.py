"""A receiver of webhooks for tests: an HTTP server in a thread that records requests."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    """One request as received."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    at: float = field(default_factory=time.time)

    @property
    def payload(self) -> dict[str, Any]:
        return json.loads(self.body)


# Status, body and headers; or None: close the connection without an answer
Reply = tuple[int, bytes, dict[str, str]] | None


def without_repetitions(requests: list[Received]) -> list[Received]:
    """The first request of each message.

    Delivery is at least once, and a repetition has the same `webhook-id`.
    """
    first: dict[str, Received] = {}
    for request in requests:
        first.setdefault(request.headers["webhook-id"], request)
    return list(first.values())


class Receiver:
    """`answer` returns the reply to each request, which is in `got` by then."""

    def __init__(self, answer: Callable[[Received], Reply] = lambda _: (200, b"", {}), *, address: str = "127.0.0.1"):
        self.got: list[Received] = []
        self.answer = answer
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = Received(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                receiver.got.append(request)
                reply = receiver.answer(request)
                if reply is None:
                    self.close_connection = True
                    return
                status, content, headers = reply
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def handle(self) -> None:
                with contextlib.suppress(OSError):  # the client may disconnect
                    super().handle()

            def log_message(self, format: str, *args: object) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256  # many clients connect at once

        self.server = Server((address, 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://{address}:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def of(self, path: str) -> list[Received]:
        """The requests to this path."""
        return [request for request in list(self.got) if request.path == path]

    def messages(self) -> list[Received]:
        """The requests without repetitions."""
        return without_repetitions(list(self.got))

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
