"""In charge of one client's connection: whether it may come in, how large a request's head may be, how long it may
take to arrive, and that nobody works for a client that has gone."""

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
from keyrack.http.load_shedding import DeferredConnections, Overload
from keyrack.http.problem_details import accepted, problem_body
from keyrack.http.request_ids import request_id
from keyrack.http.request_state import request_state
from keyrack.http.session_cookie import READS
from keyrack.http.slow_clients import SlowClientGuard, WriteBufferBudget

log = structlog.get_logger("keyrack.http")

GUARDS = {b"if-match", b"idempotency-key"}
# The grammar of RFC 9112, section 3.2; an address of IPv6 in brackets
HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?")
CHUNK_OVERHEAD = 8  # bytes of framing for a chunk of one byte
WHITE_SPACE = b" \t"  # the optional one of RFC 9110, section 5.6.3
# An address in absolute form whose path is empty; the parser of addresses finds none in it
WITHOUT_PATH = re.compile(rb"(?P<server>https?://[^/?#]+)(?P<query>(?:\?.*)?)", re.IGNORECASE)
UNSENT = 131_072  # bytes that wait in the kernel and are not on their way yet
PARTING = 0.05  # seconds until it is looked again whether a connection is idle
WAITING = 16_384  # bytes that may wait for a client before whoever writes waits too


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with the bounds that it lacks: without them one client can hold memory and sockets.

    A connection goes around this circle, once for each request:

        idle --first byte--> head --> body --> response --> idle
                                                  |
                                                  +--429, 503--> deferred --its turn--> idle

    - Head: `_in_head`, `_head_bytes`, `_tail`, `_hosts` and `_fault`; `_deadline` closes a connection that is too slow.
    - Body: `_framing` counts the bytes that are not the body's own.
    - Response: `_answering` and `_task`. Both stay until the next request begins.
    - Deferred: `_is_deferred`. Nothing more is read, and no request begins that was read already.

    These are fields and not one state, because the states overlap: a client may send the next head before it has the
    response (RFC 9112, section 9.3.2).
    """

    max_header = 32_768  # bytes of a request's head
    public_url = ""
    logs_requests = False
    head_timeout = 20.0  # seconds from the first byte, or from the connection, to the end of the head
    limiter: ConnectionLimiter  # of the process
    unread: WriteBufferBudget
    overload: Overload
    deferred: DeferredConnections  # of the process
    linger: float | None = None  # seconds that idle connections stay, once the process has begun to end

    _hosts = 0  # Host headers of a request
    _fault: Refusal | None = None  # what is wrong with its head
    _head_bytes = 0
    _tail = b""  # the end of a head may be cut by the network
    _in_head = True
    _framing = 0  # bytes behind a head that are not the body's: sizes of chunks, their extensions, trailers
    _deadline: asyncio.TimerHandle | None = None
    _reader: SlowClientGuard
    _answering: Any = None  # uvicorn's request that is being answered, and the task that does so
    _task: asyncio.Task[None] | None = None
    _is_deferred = False

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(WAITING)
        line: socket.socket | None = transport.get_extra_info("socket")
        if line is not None and line.family != socket.AF_UNIX:
            # What the client has not taken waits here, where it is counted, and not unseen in megabytes of the kernel
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
        host, port = self.client or ("", 0)
        self._reader = SlowClientGuard(self.unread, transport, f"{host}:{port}")
        if (reason := self.limiter.enter(self, host)) is not None:
            self._refuse(Unavailable(reason))
            return
        self._expect_head()
        if self.linger is not None:  # the last to be let in
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

    @override
    def shutdown(self) -> None:
        """The process stops: what is under way comes to its end, what has none is ended, and each connection closes
        with its next answer, which says so. An idle one stays for `linger`: what its client has sent until then is
        answered, where it would hear no answer at all, and could not know whether anything was done."""
        if self._is_idle() and self.linger is not None:
            self.loop.call_later(self.linger, self._part)
            return
        super().shutdown()
        if self._answering is None:
            return
        if (subscription := request_state(self._answering.scope).subscription) is not None:
            subscription.end()

    def _part(self) -> None:
        """Close the connection, unless something has come in on it: that is answered first."""
        if self._is_idle() and not self.transport.is_closing():
            if self._head_bytes or self._unread_bytes():
                self.loop.call_later(PARTING, self._part)
            else:
                self.transport.close()

    def _is_idle(self) -> bool:
        newest: Any = self.cycle
        return newest is None or newest.response_complete

    def _unread_bytes(self) -> int:
        """How many the kernel has of the client that were not read yet."""
        line: socket.socket | None = self.transport.get_extra_info("socket")
        with suppress(OSError):
            if line is not None:
                return int.from_bytes(fcntl.ioctl(line.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder)
        return 0

    def leave_room(self) -> None:
        """Close the connection, which is idle: somebody else needs its place."""
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
        """As uvicorn does it; but the task is remembered, and nothing is begun that there is no time for."""
        if self._is_deferred:
            self.pipeline.appendleft((cycle, app))
            return
        owner = self.overload.enter(cycle.scope, (self.client or ("",))[0])
        if owner is None:
            self._put_off(cycle)
            return
        self._answering = cycle
        self._task = self.loop.create_task(cycle.run_asgi(app))
        self._task.add_done_callback(lambda task: self._done(task, owner))
        self.tasks.add(self._task)

    def _done(self, task: asyncio.Task[None], owner: str) -> None:
        self.tasks.discard(task)
        self.overload.leave(owner)

    def _put_off(self, cycle: Any) -> None:
        """Refuse the request at the least cost, and keep the connection: the client will come again."""
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
        """Whether the head ends in these bytes, early enough: what follows is the body's."""
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
        """An address without a path is that of the root (RFC 9112, section 3.2.2)."""
        super().on_url(url)
        if match := WITHOUT_PATH.fullmatch(self.url):
            self.url = match["server"] + b"/" + match["query"]

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        """White space around a value is no part of it (RFC 9110, section 5.5).

        A header without a value counts as missing, but for those that guard a write: it would be done unguarded.
        Trailers are ignored (RFC 9110, section 6.5.1).
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
            raise ValueError("a head that is refused")  # uvicorn has whatever a callback raises answered
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
        self._in_head = True  # the next request's head, if there is one; its clock starts with its first byte

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
        """Read the next request, or begin with it if it was read already."""
        self._is_deferred = False
        super().on_response_complete()
        if not self._in_head:  # the rest of a body that nobody waits for
            self._stop_clock()
            self._deadline = self.loop.call_later(self.head_timeout, self.transport.close)
        self._rest()

    def _rest(self) -> None:
        """Idle, if everything is answered and the client has the answer."""
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
        """What the parser cannot read, or its callbacks refuse."""
        self._refuse(self._fault or BadRequest(NO_HTTP))

    def _too_slow(self) -> None:
        self._refuse(RequestTimeout(HEAD_TOO_SLOW))

    def _refuse(self, refusal: Refusal) -> None:
        if not self.transport.is_closing():
            self._write(refusal, self.headers or [], close=True)

    def _write(self, refusal: Refusal, sent: list[tuple[bytes, bytes]], *, close: bool, bare: bool = False) -> None:
        """Answer with a refusal, `bare` without body; `sent` are the request's headers, as far as they have come."""
        id = request_id(sent)
        body, media_type = problem_body(refusal, accepted(sent), id, self.public_url)
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
    """The protocol of one process, with its bounds."""
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
    """Raises `RuntimeError` if this uvicorn lacks a method that is overridden here: the bound would not hold."""
    overridden = [name for name, value in vars(GuardedProtocol).items() if getattr(value, "__override__", False)]
    if missing := [name for name in overridden if not hasattr(HttpToolsProtocol, name)]:
        raise RuntimeError(
            f"uvicorn {uvicorn.__version__} has no {', '.join(missing)}. "
            "Install the version of requirements/runtime.txt."
        )


def begin_to_end(config: uvicorn.Config, linger: float) -> None:
    """From now on each connection has its last request; idle ones close after `linger` seconds."""
    own = config.http_protocol_class
    assert issubclass(own, GuardedProtocol)  # noqa: S101 - `protocol` has made it
    own.linger = linger
