"""Clients of a test, and a proxy that disturbs them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
from keyrack_client import AsyncKeyrack, Keyrack

from tests.support.people import NO_TLS, Person, fetch
from tests.support.servers import DEADLINE

SCOPES = (
    "cars:read", "cars:write", "users:read", "users:write", "assignments:read", "assignments:write", "groups:read",
    "groups:write", "products:read", "installations:write", "pairings:write", "services:read", "events:read",
    "events:write", "changes:read", "operations:read", "batch:write", "webhooks:read", "webhooks:write",
)  # fmt: skip
NOON = datetime(2030, 5, 1, 12, tzinfo=UTC)


@dataclass
class Machine:
    """A machine client of a customer."""

    person: Person
    id: int
    client_id: str
    client_secret: str
    url: str

    @property
    def options(self) -> dict[str, Any]:
        return {
            "api_key": self.person.api_key,
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "customer_id": self.person.customer,
            "timeout": DEADLINE,
        }

    @property
    def environment(self) -> dict[str, str]:
        return {
            "KEYRACK_URL": self.url,
            "KEYRACK_API_KEY": self.person.api_key,
            "KEYRACK_CLIENT_ID": self.client_id,
            "KEYRACK_CLIENT_SECRET": self.client_secret,
            "KEYRACK_CUSTOMER_ID": str(self.person.customer),
        }

    def client(self, url: str | None = None, **options: Any) -> Keyrack:
        http = httpx.Client(verify=NO_TLS, timeout=DEADLINE)
        return Keyrack(url or self.url, http=http, **self.options | options)

    def async_client(self, url: str | None = None, **options: Any) -> AsyncKeyrack:
        http = httpx.AsyncClient(verify=NO_TLS, timeout=DEADLINE)
        return AsyncKeyrack(url or self.url, http=http, **self.options | options)


def machine_of(person: Person, url: str, scopes: tuple[str, ...] = SCOPES) -> Machine:
    made = person.put("/clients", {"name": "shop", "scopes": list(scopes)})
    assert made.status_code == 201, made.text
    row = made.json()
    return Machine(person, row["id"], row["clientId"], row["clientSecret"], url)


def slot(number: int) -> dict[str, datetime]:
    """The start and the end of a booking of an hour. Different numbers do not overlap."""
    start = NOON + timedelta(hours=number)
    return {"start": start, "end": start + timedelta(hours=1)}


Answer = tuple[int, dict[str, str], bytes]


class Proxy:
    """A proxy that logs requests. `disturb` can replace an answer, or drop it with None.

    `disturb` gets the number of the request, its method and path, and a function that sends it to the server.
    """

    def __init__(self, target: str, disturb: Callable[[int, str, str, Callable[[], Answer]], Answer | None]) -> None:
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self._lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                with proxy._lock:
                    proxy.requests.append((self.command, self.path, dict(self.headers.items())))
                    number = len(proxy.requests)

                def forward() -> Answer:
                    answer = fetch(self.command, target + self.path, content=body, headers=headers)
                    return answer.status_code, dict(answer.headers.items()), answer.content

                answer = disturb(number, self.command, self.path, forward)
                self.close_connection = True
                if answer is None:
                    return
                status, sent, content = answer
                self.send_response(status)
                for name, value in sent.items():
                    if name.lower() not in ("content-length", "content-encoding", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                if status not in (204, 304):
                    self.send_header("Content-Length", str(len(content)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = do

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 200
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def count(self, path: str) -> int:
        return sum(sent.partition("?")[0] == path for _, sent, _ in self.requests)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
