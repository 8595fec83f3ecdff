"""The HTTP protocol of one client connection.

It limits connections, the size of a request head and the time for its arrival. It cancels reads of clients that
disconnect.
"""

from __future__ import annotations

import asyncio
import fcntl
import re
import socket
import sys
import termios
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import structlog
import uvicorn
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from keyrack.auth.page_origin import READS
from keyrack.core.error_codes import (
    HEAD_TOO_LARGE,
    HEAD_TOO_SLOW,
    INVALID_HOST,
    NO_HTTP,
    ONE_HOST,
    OVERLOADED,
    TRANSFER_CODING,
)
from keyrack.core.errors import BadRequest, HeadTooLarge, NotImplemented, Refusal, RequestTimeout, Unavailable
from keyrack.core.settings import Settings
from keyrack.http.access_log import aborted_by_client
from keyrack.http.base_path import SECURITY_HEADERS
from keyrack.http.connection_limits import ConnectionLimiter, max_connections
from keyrack.http.load_shedding import Admission, DeferredConnections, Overload
from keyrack.http.problem_details import accepted, problem_body
from keyrack.http.request_ids import request_id
from keyrack.http.request_mode import mode_of_headers
from keyrack.http.request_state import request_state
from keyrack.http.slow_clients import SlowClientGuard, WriteBufferBudget

log = structlog.get_logger("keyrack.http")

GUARDS = {b"if-match", b"idempotency-key"}
# The grammar of RFC 9112, section 3.2; an IPv6 address in brackets
HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?")
CHUNK_OVERHEAD = 8  # bytes of framing for a chunk of one byte
WHITE_SPACE = b" \t"  # optional white space of RFC 9110, section 5.6.3
# An absolute URL with an empty path, which the URL parser rejects
WITHOUT_PATH = re.compile(rb"(?P<server>https?://[^/?#]+)(?P<query>(?:\?.*)?)", re.IGNORECASE)
UNSENT = 131_072  # unsent bytes that may wait in the kernel
PARTING = 0.05  # seconds until the next check for an idle connection
WAITING = 16_384  # bytes that may wait for a client before the writer waits too


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with additional limits: without them, one client can exhaust memory and sockets.

    A connection runs through this cycle once per request:

        idle --first byte--> head --> body --> response --> idle
                                                  |
                                                  +--429, 503--> deferred --its turn--> idle

    - Head: `_in_head`, `_head_bytes`, `_tail`, `_hosts` and `_fault`; `_deadline` closes a connection that is too
      slow.
    - Body: `_framing` counts the bytes that are not the body's own.
    - Response: `_answering` and `_task`. Both stay until the next request begins.
    - Deferred: `_is_deferred`. Nothing more is read, and no pipelined request begins.

    These are fields instead of one state, because the states overlap: a client may send the next head before it has the
    response (RFC 9112, section 9.3.2).
    """

    max_header = 32_768  # bytes of a request's head
    public_url = ""
    logs_requests = False
    head_timeout = 20.0  # seconds from the connection, or from the first byte, to the end of the head
    limiter: ConnectionLimiter  # of the process
    unread: WriteBufferBudget
    overload: Overload
    deferred: DeferredConnections  # of the process
    linger: float | None = None  # seconds that idle connections stay after shutdown has begun

    _hosts = 0  # Host headers of a request
    _fault: Refusal | None = None  # the error in its head
    _head_bytes = 0
    _tail = b""  # the network may split the end of a head
    _in_head = True
    _framing = 0  # bytes after a head that are not the body's: chunk sizes, their extensions, trailers
    _deadline: asyncio.TimerHandle | None = None
    _reader: SlowClientGuard
    _answering: Any = None  # uvicorn's active request, and its task
    _task: asyncio.Task[None] | None = None
    _is_deferred = False

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(WAITING)
        line: socket.socket | None = transport.get_extra_info("socket")
        if line is not None and line.family != socket.AF_UNIX:
            # Unsent data waits here, where it is counted, and not in megabytes of kernel buffers
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
        host, port = self.client or ("", 0)
        self._reader = SlowClientGuard(self.unread, transport, f"{host}:{port}")
        if (reason := self.limiter.enter(self, host)) is not None:
            self._refuse(Unavailable(reason))
            return
        self._expect_head()
        if self.linger is not None:  # the last accepted connection
            self.shutdown()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        self.limiter.leave(self)
        self.deferred.forget(self)
        self._reader.resume()
        super().connection_lost(exc)
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            if self._answering.scope["method"] in READS and self._task is not None:
                request_state(self._answering.scope).is_client_gone = True
                self._task.cancel()
            else:
                self._end_subscription()

    @override
    def shutdown(self) -> None:
        """At shutdown: finish the active request, and close the connection with its response.

        A stream ends at once. An idle connection stays for `linger` seconds, and requests that arrive until then are
        answered. Otherwise their clients would get no response, and could not know whether the request had an effect.
        """
        if self._is_idle() and self.linger is not None:
            self.loop.call_later(self.linger, self._part)
            return
        super().shutdown()
        if self._answering is not None:
            self._end_subscription()

    def _end_subscription(self) -> None:
        """End the stream or the wait of the active request, if any."""
        if (subscription := request_state(self._answering.scope).subscription) is not None:
            subscription.end()

    def _part(self) -> None:
        """Close the connection, unless data has arrived; that request is answered first."""
        if self._is_idle() and not self.transport.is_closing():
            if self._head_bytes or self._unread_bytes():
                self.loop.call_later(PARTING, self._part)
            else:
                self.transport.close()

    def _is_idle(self) -> bool:
        newest: Any = self.cycle
        return newest is None or newest.response_complete

    def _unread_bytes(self) -> int:
        """The number of received bytes in the kernel that are not read yet."""
        line: socket.socket | None = self.transport.get_extra_info("socket")
        with suppress(OSError):
            if line is not None:
                return int.from_bytes(fcntl.ioctl(line.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder)
        return 0

    def leave_room(self) -> None:
        """Close the idle connection to make room for another one."""
        self.transport.close()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader.pause()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._reader.resume()
        self._rest()

    @override
    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Start the request as uvicorn does, and keep the task. Overload may reject the request."""
        if self._is_deferred:
            self.pipeline.appendleft((cycle, app))
            return
        owner = self.overload.enter(cycle.scope, (self.client or ("",))[0])
        if owner is None:
            self._put_off(cycle)
            return
        self._answering = cycle
        admission = Admission(self.overload, owner)
        request_state(cycle.scope).end_load = admission.end
        self._task = self.loop.create_task(cycle.run_asgi(app))
        self._task.add_done_callback(lambda task: self._done(task, admission))
        self.tasks.add(self._task)

    def _done(self, task: asyncio.Task[None], admission: Admission) -> None:
        self.tasks.discard(task)
        admission.end()

    def _put_off(self, cycle: Any) -> None:
        """Reject the request cheaply, and keep the connection.

        The client will retry.
        """
        self._answering = cycle
        cycle.response_started = cycle.response_complete = True
        scope, refusal = cycle.scope, Unavailable(OVERLOADED)
        request_state(scope).is_retried_later = True
        self._write(refusal, scope["headers"], bare=scope["method"] == "HEAD", close=not cycle.keep_alive)
        self.on_response_complete()

    @override
    def data_received(self, data: bytes) -> None:
        if self._in_head:
            if self._deadline is None:
                self._expect_head()
            self._head_bytes += len(data)
            if self._head_bytes > self.max_header and not self._head_fits(data):
                self._refuse(HeadTooLarge(HEAD_TOO_LARGE))
                return
            self._tail = data[-3:]
        else:
            self._framing += len(data)
        super().data_received(data)
        if not self._in_head and self._framing > self.max_header:
            self._refuse(HeadTooLarge(HEAD_TOO_LARGE))

    def _head_fits(self, data: bytes) -> bool:
        """Whether the head ends within these bytes and within the limit. Later bytes belong to the body."""
        before = self._head_bytes - len(data) - len(self._tail)
        end = (self._tail + data).find(b"\r\n\r\n")
        return end >= 0 and before + end <= self.max_header

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._hosts, self._fault = 0, None

    @override
    def on_url(self, url: bytes) -> None:
        """A URL without a path has the path `/` (RFC 9112, section 3.2.2)."""
        super().on_url(url)
        if match := WITHOUT_PATH.fullmatch(self.url):
            self.url = match["server"] + b"/" + match["query"]

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header without the white space around its value (RFC 9110, section 5.5).

        A header without a value counts as missing, except the ones that guard a write: otherwise the write would run
        unguarded. Trailers are ignored (RFC 9110, section 6.5.1).
        """
        if not self._in_head:
            return
        value = value.strip(WHITE_SPACE)
        if name.lower() == b"host":
            self._hosts += 1
            if HOST.fullmatch(value) is None:
                self._fault = BadRequest(INVALID_HOST)
        elif name.lower() == b"transfer-encoding" and value.lower() != b"chunked":
            self._fault = NotImplemented(TRANSFER_CODING)
        if value or name.lower() in GUARDS:
            super().on_header(name, value)

    @override
    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = self._framing = 0
        self._tail = b""
        self._stop_clock()
        parser: Any = self.parser
        version = parser.get_http_version()
        if version == "1.1" and self._hosts != 1:
            self._fault = BadRequest(ONE_HOST)
        if version not in ("1.0", "1.1") or self._fault is not None:
            raise ValueError("a head that is refused")  # uvicorn responds to every exception of a callback
        self.limiter.busy(self)
        super().on_headers_complete()
        if self.linger is not None:
            self.cycle.keep_alive = False

    @override
    def on_body(self, body: bytes) -> None:
        self._framing -= len(body) * (1 + CHUNK_OVERHEAD)
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._stop_clock()
        self._in_head = True  # the next request's head, if there is one; its first byte starts the clock

    @override
    def on_response_complete(self) -> None:
        if request_state(self._answering.scope).is_retried_later and not self.transport.is_closing():
            self._is_deferred = True
            self.flow.pause_reading()
            self.deferred.wait(self)
            self._rest()
        else:
            self.go_on()

    def go_on(self) -> None:
        """Read the next request, or start it if it was read already."""
        self._is_deferred = False
        super().on_response_complete()
        if not self._in_head:  # the rest of an unread body
            self._stop_clock()
            self._deadline = self.loop.call_later(self.head_timeout, self.transport.close)
        self._rest()

    def _rest(self) -> None:
        """Mark the connection as idle if everything is answered and sent."""
        if self._is_idle() and not self._reader.is_waiting:
            self.limiter.idle(self)

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(self.head_timeout, self._too_slow)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    @override
    def send_400_response(self, msg: str) -> None:
        """Reject a request that the parser or its callbacks reject."""
        self._refuse(self._fault or BadRequest(NO_HTTP))

    def _too_slow(self) -> None:
        self._refuse(RequestTimeout(HEAD_TOO_SLOW))

    def _refuse(self, refusal: Refusal) -> None:
        if not self.transport.is_closing():
            self._write(refusal, self.headers or [], close=True)

    def _write(self, refusal: Refusal, sent: list[tuple[bytes, bytes]], *, close: bool, bare: bool = False) -> None:
        """Send an error response, without a body if `bare`. `sent` has the headers received so far."""
        id = request_id(sent)
        body, media_type = problem_body(refusal, accepted(sent), id, self.public_url, mode_of_headers(sent))
        aborted_by_client(refusal.status, id, self.client, len(body), logged=self.logs_requests)
        headers = {
            "content-type": media_type, "content-length": str(len(body)), "vary": "Accept", "x-request-id": id,
            **refusal.headers, **({"connection": "close"} if close else {}),
        }  # fmt: skip
        lines = [f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"{name.decode()}: {value.decode()}" for name, value in SECURITY_HEADERS]
        self.transport.write("\r\n".join([*lines, "", ""]).encode("ascii") + (b"" if bare else body))
        if close:
            self.transport.close()


def protocol(settings: Settings) -> type[GuardedProtocol]:
    """The protocol class of one process, with its limits."""
    most = max_connections(settings)
    _check_hooks()
    log.info("connection limits set", total=most, per_address=settings.max_client_connections_per_address)
    limiter = ConnectionLimiter(most, settings.max_client_connections_per_address, settings.trusted_proxies)
    unread = WriteBufferBudget(
        settings.max_write_buffer_bytes, settings.min_client_read_bytes_per_second, settings.slow_client_seconds
    )
    own = {
        "max_header": settings.max_header_bytes, "head_timeout": settings.request_read_timeout_seconds,
        "public_url": settings.public_url, "logs_requests": settings.access_log,
        "overload": Overload(settings.load_shedding_lag_seconds), "deferred": DeferredConnections(),
    }  # fmt: skip
    return type("Protocol", (GuardedProtocol,), {**own, "limiter": limiter, "unread": unread})


def _check_hooks() -> None:
    """Raises `RuntimeError` if this uvicorn lacks an overridden method: its limit would not work."""
    overridden = [name for name, value in vars(GuardedProtocol).items() if getattr(value, "__override__", False)]
    if missing := [name for name in overridden if not hasattr(HttpToolsProtocol, name)]:
        raise RuntimeError(
            f"uvicorn {uvicorn.__version__} has no {', '.join(missing)}. "
            "Install the version of requirements/runtime.txt."
        )


def begin_to_end(config: uvicorn.Config, linger: float) -> None:
    """Each connection closes with its next response, and idle ones after `linger` seconds."""
    own = config.http_protocol_class
    assert issubclass(own, GuardedProtocol)  # noqa: S101 - `protocol` has made it
    own.linger = linger
