"""The heads of receivers' answers, read independently of the HTTP client.

aiohttp rejects a whole answer if its body or a header breaks the rules, such as a 204 with a body. The receiver has
processed the delivery by then, so its status decides (RFC 9110, section 15).
"""

from __future__ import annotations

import asyncio
import re
from contextvars import ContextVar
from typing import TYPE_CHECKING, cast

import aiohttp
from typing_extensions import override

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

MAX_BYTES = 32_768  # limit for the heads of one answer, including its interim answers
STATUS_LINE = re.compile(rb"HTTP/[0-9]\.[0-9] +(?P<status>[1-9][0-9]{2})(?: [^\r\n]*)?\r?\n")
LONGEST_END = b"\r\n\r\n"
END = re.compile(rb"\r?\n\r?\n")
SWITCHING = 101  # the only 1xx that no other answer follows


class AnswerHead:
    """The `status` and `Retry-After` of an answer; None until its head is complete, or if it is not valid."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.retry_after: str | None = None
        self._head = bytearray()
        self._bytes = 0  # of all heads so far
        self._is_over = False

    def feed(self, data: bytes) -> None:
        """Read more bytes, up to the end of the first final head."""
        self._bytes += len(data)
        while not self._is_over:
            seen = max(0, len(self._head) - len(LONGEST_END) + 1)
            self._head += data
            if (end := END.search(self._head, seen)) is None:
                self._is_over = self._bytes > MAX_BYTES
                return
            data = bytes(self._head[end.end() :])
            self._read(bytes(self._head[: end.end()]))
            self._head.clear()

    def _read(self, head: bytes) -> None:
        if not (head := head.lstrip(b"\r\n")):
            return  # blank lines may precede an answer, for example after one whose length was wrong
        line = STATUS_LINE.match(head)
        status = None if line is None else int(line["status"])
        if status is None or status >= 200 or status == SWITCHING:
            self._is_over = True
            self.status = status
            self.retry_after = None if status is None else _header(head, b"retry-after")


# The head of the answer to the delivery that the running task sends.
ANSWER_HEAD: ContextVar[AnswerHead] = ContextVar("answer_head")


class ObservedConnector(aiohttp.TCPConnector):
    """Connections that also copy answers to the `ANSWER_HEAD` of the sending task."""

    @override
    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout) -> Connection:
        connection = await super().connect(req, traces, timeout)
        transport = cast("asyncio.Transport", connection.transport)
        protocol = transport.get_protocol()
        if not isinstance(protocol, _ObservedProtocol):
            protocol = _ObservedProtocol(cast("asyncio.Protocol", protocol))
            transport.set_protocol(protocol)
        protocol.head = ANSWER_HEAD.get()
        return connection


class _ObservedProtocol(asyncio.Protocol):
    """aiohttp's protocol, with a copy of incoming data for the head of the answer."""

    def __init__(self, own: asyncio.Protocol) -> None:
        self._inner = own
        self.head = AnswerHead()

    @override
    def data_received(self, data: bytes) -> None:
        self.head.feed(data)
        self._inner.data_received(data)

    @override
    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        self._inner.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._inner.resume_writing()


def _header(head: bytes, name: bytes) -> str | None:
    for line in head.splitlines()[1:]:
        own, _, value = line.partition(b":")
        if own.lower() == name:
            return value.strip(b" \t").decode("latin-1")
    return None
