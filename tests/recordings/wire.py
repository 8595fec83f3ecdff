"""Requests and responses on the wire."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Sequence
from dataclasses import dataclass

DEADLINE = 120.0  # seconds for a response, however busy the machine is
HOST = "keyrack.test"
BOUNDLESS = "text/event-stream"

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """A request, with all its headers except `Host` and `Content-Length`."""

    method: str
    target: str
    headers: Headers = ()
    body: bytes | None = None


@dataclass(frozen=True)
class Response:
    """A response. The body of a stream is the data before it was closed."""

    status: int
    reason: str
    headers: Headers
    body: bytes

    def header(self, name: str) -> str | None:
        """The first value of a header."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class Connection:
    """A client connection that sends one request after the other."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def send(self, request: Request, *, until: bytes | None = None) -> Response:
        """Send a request, and return its response. A stream is read up to the text `until`."""
        connection = self._connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=DEADLINE)
        self._connection = connection
        connection.putrequest(request.method, request.target, skip_host=True, skip_accept_encoding=True)
        names = {name.lower() for name, _ in request.headers}
        if "host" not in names:
            connection.putheader("Host", HOST)
        for name, value in request.headers:
            connection.putheader(name, value.encode("latin-1"))
        if request.body is not None and not names & {"content-length", "transfer-encoding"}:
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body)
        answer = connection.getresponse()
        is_stream = (answer.getheader("Content-Type") or "").startswith(BOUNDLESS) and request.method != "HEAD"
        is_broken = False
        try:
            body = _beginning(answer, until or b"\n\n") if is_stream else answer.read()
        except http.client.IncompleteRead as broken:
            body, is_broken = broken.partial + b"\n(the connection ended here)", True
        if is_stream or is_broken or answer.will_close:
            self.close()
        return Response(answer.status, answer.reason, answer.getheaders(), body)

    def send_raw(self, data: bytes) -> Response:
        """Send raw bytes over a separate connection, and return the response."""
        with socket.create_connection(("127.0.0.1", self._port), DEADLINE) as line:
            line.sendall(data)
            answer = http.client.HTTPResponse(line)
            answer.begin()
            return Response(answer.status, answer.reason, answer.getheaders(), answer.read())

    def close(self) -> None:
        """Close the connection. The next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _beginning(answer: http.client.HTTPResponse, until: bytes) -> bytes:
    """Read a stream up to and including `until`."""
    data = b""
    while until not in data and (more := answer.read1(1)):
        data += more
    return data
