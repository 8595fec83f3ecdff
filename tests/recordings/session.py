"""The session of a recording, which sends requests and keeps exchanges."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.recordings.exchanges import Exchange, file_name, shorten
from tests.recordings.installation import Installation
from tests.recordings.masks import Masks, printable
from tests.recordings.messages import encode_base64url
from tests.recordings.table import Document
from tests.recordings.wire import DEADLINE, Connection, Request, Response

BASE = "/v3"
TURN = "update client set is_disabled = not is_disabled where client_id = $1"
ALWAYS = {"X-Request-Id": "recording", "User-Agent": "recordings"}


@dataclass(frozen=True)
class Caller:
    """A caller: the headers that authenticate it."""

    name: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def with_headers(self, name: str, headers: Mapping[str, str]) -> Caller:
        """The same caller with additional headers."""
        return replace(self, name=name, headers={**self.headers, **headers})


@dataclass
class Call:
    """A request to send: a path below the base, a body and headers."""

    method: str
    path: str
    body: Any = None  # bytes are sent unchanged, text as a form, everything else as JSON
    headers: dict[str, str | None] = field(default_factory=dict)  # None removes a header of the caller


class Session:
    """Sends requests in order, and keeps the recorded exchanges."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.masks = Masks()
        self.exchanges: list[Exchange] = []
        self.section = ""
        self._connection = Connection(installation.port)
        self._titles: Counter[str] = Counter()
        self._canary: tuple[int, Caller] | None = None
        self._access = 0
        self.document = Document(json.loads(self._send(Request("GET", "/openapi.json")).body))

    def record(
        self, caller: Caller, call: Call, title: str, *, base: str = BASE, until: bytes | None = None
    ) -> Response:
        """Send a request, wait for all its effects, and keep the exchange."""
        request = _request(caller, call, base)
        response = self._send(request, until=until)
        self._keep(self._describe(caller, call, request), request.body, response, title)
        return response

    def record_raw(self, data: bytes, title: str) -> Response:
        """Record a request of raw bytes."""
        response = self._connection.send_raw(data)
        self._keep("> raw bytes", data.replace(b"\r", b""), response, title)
        return response

    def send(self, caller: Caller, call: Call, *, base: str = BASE) -> Response:
        """Send a request that is not recorded."""
        return self._send(_request(caller, call, base))

    def ask(self, caller: Caller, method: str, path: str, body: Any = None, **headers: str | None) -> Any:
        """Send such a request, which must succeed, and return its JSON response."""
        response = self.send(caller, Call(method, path, body, dict(headers)))
        if response.status >= 300:
            raise RuntimeError(f"{method} {path} as {caller.name}: {response.status} {response.body!r}")
        return json.loads(response.body) if response.body else None

    def accepts(self, caller: Caller) -> bool:
        """Whether the server accepts the caller's credentials."""
        return self.send(caller, Call("GET", "/me")).status != 401

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition."""
        end = time.monotonic() + DEADLINE
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"{what} has not come true within {DEADLINE} s.")
            time.sleep(0.005)

    def _keep(self, asked: str, sent: bytes | None, response: Response, title: str) -> None:
        """Keep an exchange with its varying values masked."""
        key = f"{self.section}: {title}"
        self._titles[key] += 1
        if self._titles[key] > 1:
            title = f"{title} ({self._titles[key]})"
        self.masks.enter(f"{self.section}: {title}")
        data = _unpack(response.body)
        is_text = not (response.header("Content-Type") or "").endswith("+cwt")
        plain = data.decode("utf-8", "surrogateescape") if is_text else encode_base64url(data)
        asked = self.masks.text(asked)
        if sent is not None:
            asked += "\n" + shorten(self.masks.text(_unpack(sent).decode("utf-8", "surrogateescape")))
        body = self.masks.body(plain)
        headers = self.masks.headers(asked, response, is_varying=body != plain)
        head = "".join(f"< {name}: {value}\n" for name, value in headers)
        start = printable(f"{asked}\n< {response.status} {response.reason}\n{head}")
        exchange = Exchange(file_name(self.section), title, start + shorten(printable(body)), start + printable(body))
        self.exchanges.append(exchange)

    def _send(self, request: Request, *, until: bytes | None = None) -> Response:
        response = self._connection.send(request, until=until)
        if request.method not in ("GET", "HEAD", "OPTIONS") and response.status < 400:
            self.installation.settle()
            self._catch_up()
        return response

    def watch(self, client: int, caller: Caller) -> None:
        """Use this machine client to observe the server's state of access."""
        self._canary, self._access = (client, caller), self.installation.access()

    def _catch_up(self) -> None:
        """Wait until the server has applied all changes of access. It applies them in order."""
        if self._canary is None or self.installation.access() == self._access:
            return
        client, caller = self._canary
        request = _request(caller, Call("GET", "/customers"), BASE)
        before = self._connection.send(request).status
        self.installation.execute(TURN, client)
        self.wait_until(lambda: self._connection.send(request).status != before, "A change of who may call")
        self.installation.settle()
        self._access = self.installation.access()

    def _describe(self, caller: Caller, call: Call, request: Request) -> str:
        """The head of a request as text: its line, and headers that are not the caller's."""
        lines = [f"> {request.method} {request.target} as {caller.name}"]
        for name, value in call.headers.items():
            shown = "(none)" if value is None else self.masks.tags(value) if name.startswith("If-") else value
            lines.append(f"> {name.lower()}: {shown}")
        return "\n".join(lines)


def _unpack(data: bytes) -> bytes:
    """Decompress a body if it is gzip."""
    with contextlib.suppress(gzip.BadGzipFile, EOFError):
        return gzip.decompress(data) or data
    return data


def _request(caller: Caller, call: Call, base: str) -> Request:
    headers: dict[str, str | None] = {**ALWAYS, **caller.headers}
    body: bytes | None = None
    match call.body:
        case None:
            pass
        case bytes():
            body = call.body
        case str():
            body = call.body.encode()
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        case _:
            body = json.dumps(call.body, ensure_ascii=False).encode()
            headers["Content-Type"] = "application/json"
    replaced = {name.lower() for name in call.headers}
    headers = {name: value for name, value in headers.items() if name.lower() not in replaced} | call.headers
    sent = [(name, value) for name, value in headers.items() if value is not None]
    return Request(call.method, base + call.path, sent, body)
