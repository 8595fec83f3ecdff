"""In charge of one client's connection: how large a request's head may be, and how long it may take to arrive."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

TOO_LARGE = (431, "Request Header Fields Too Large", "The head of the request is too large.")
TOO_SLOW = (408, "Request Timeout", "The head of the request took too long to arrive.")


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with the bounds that it lacks: without them one client can hold memory and sockets."""

    max_header = 32_768  # bytes of a request's head
    head_timeout = 20.0  # seconds from the first byte, or from the connection, to the end of the head

    _head_bytes = 0
    _tail = b""  # the end of a head may be cut by the network
    _in_head = True
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            if self._deadline is None:
                self._expect_head()
            self._head_bytes += len(data)
            if self._head_bytes > self.max_header and not self._head_fits(data):
                self._refuse(TOO_LARGE)
                return
            self._tail = data[-3:]
        super().data_received(data)

    def _head_fits(self, data: bytes) -> bool:
        """Whether the head ends in these bytes, early enough: what follows is the body's."""
        before = self._head_bytes - len(data) - len(self._tail)
        end = (self._tail + data).find(b"\r\n\r\n")
        return end >= 0 and before + end <= self.max_header

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._tail = b""
        self._stop_clock()
        parser: Any = self.parser
        if parser.get_http_version() not in ("1.0", "1.1"):
            raise ValueError("another version of HTTP")  # uvicorn answers 400 to whatever the parser's callbacks raise
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._stop_clock()
        self._in_head = True  # the next request's head, if there is one; its clock starts with its first byte

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._in_head:  # the rest of a body that nobody waits for
            self._stop_clock()
            self._deadline = self.loop.call_later(self.head_timeout, self.transport.close)

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(self.head_timeout, self._refuse, TOO_SLOW)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, why: tuple[int, str, str]) -> None:
        status, phrase, text = why
        if self.transport.is_closing():
            return
        head = (
            f"HTTP/1.1 {status} {phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
            f"content-length: {len(text)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write((head + text).encode("ascii"))
        self.transport.close()
