"""Finds the primary among several servers, and detects one that vanished silently.

asyncpg's own choice has one timeout for all servers, which a server that accepts and stays silent uses up. It also
stays with a server that has become a replica. Here each server has its own timeout, and only a primary is accepted.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, LiteralString, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from keyrack.core.log_config import cause
from keyrack.core.settings import Settings
from keyrack.db.replication.primary import PrimaryTracker, is_shutting_down
from keyrack.db.session_settings import open_session

PORT = 5432
ALONE = 10.0  # seconds, in place of the timeout per server, if no other server can take over
HEAD_START = 0.5  # seconds that the last primary has before the others are asked as well
# Seconds until a silently vanished peer is detected: 5 + 3 * 3 on an idle connection, else 10
IDLE, INTERVAL, PROBES, UNACKNOWLEDGED = 5, 3, 3, 10
# The name of a WAL file begins with the timeline, also before the first checkpoint after a promotion
LEADS: LiteralString = """
select (select system_identifier::text from pg_control_system()) as system,
  case when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_lsn()), 8) end as timeline
"""


class Host(NamedTuple):
    """A server in the address: a name, an IP address, or the directory of a socket."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


class NoPrimary(ConnectionError):
    """None of the servers is the primary; the text has each server's reason, but no password."""


class KeepAliveConnection(asyncpg.Connection):
    """A TCP connection that detects a vanished peer in seconds instead of hours."""

    def __init__(self, protocol: Any, transport: Any, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        _keep_alive(transport.get_extra_info("socket"))


def hosts_of(dsn: str) -> tuple[Host, ...]:
    """The servers of an address; none if it leaves them to the environment.

    >>> [str(host) for host in hosts_of("postgresql://u:p@one:5433,two,[::1]:5435/keyrack?sslmode=require")]
    ['one:5433', 'two:5432', '[::1]:5435']
    >>> hosts_of("postgresql:///keyrack?host=/run/one,/run/two&port=5433,5434")
    (Host(name='/run/one', port=5433), Host(name='/run/two', port=5434))
    """
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    ports = query.get("port", [""])[-1].split(",")
    named = parts.netloc.rpartition("@")[2]
    names = [unquote(host) for host in named.split(",")] if named else query.get("host", [""])[-1].split(",")
    hosts: list[Host] = []
    for place, name in enumerate(name for name in names if name):
        given = ports[place] if len(ports) > 1 and place < len(ports) else ports[0]
        has_port = ":" in name and not name.startswith("/") and name[-1] != "]"
        host, port = name.rsplit(":", 1) if has_port else (name, "")
        hosts.append(Host(host.strip("[]"), int(port or given or PORT)))
    return tuple(hosts)


@dataclass(frozen=True, slots=True)
class _ServerReply:
    """The answer of a server to a probe."""

    host: Host
    raw: asyncpg.Connection
    system: str
    timeline: int  # 0: a replica


class PrimaryConnector:
    """Opens connections to the primary of an address. All of one process share its `leadership`."""

    def __init__(self, dsn: str, settings: Settings, leadership: PrimaryTracker | None = None) -> None:
        self.dsn = dsn
        self._hosts = hosts_of(dsn)
        self.leadership = leadership or PrimaryTracker(settings, several=len(self._hosts) > 1)
        self._seconds = settings.database_connect_seconds
        self._leader: Host | None = None  # the last one, which is asked first
        self._lock = asyncio.Lock()  # one caller probes all servers for all callers
        self._failed_at = 0.0  # end of the last probe of all servers that found no primary
        self._last_error: BaseException = NoPrimary()
        self.leadership.watch(self._on_reset)

    async def __call__(self, _dsn: str, **options: Any) -> asyncpg.Connection:
        """The same for asyncpg's pool."""
        return await self.connect(**options)

    async def connect(self, **options: Any) -> asyncpg.Connection:
        """A connection to the primary; the `options` are asyncpg's. Raises `NoPrimary`, and asyncpg's errors."""
        options.setdefault("connection_class", KeepAliveConnection)
        if not self.leadership.fails_over or not self._hosts:
            options.setdefault("timeout", ALONE)
            return await open_session(self.dsn, **options)
        began = time.monotonic()
        if self._leader is None:
            async with self._lock:
                if self._leader is None:
                    if self._failed_at > began:  # another caller has probed meanwhile
                        raise self._last_error
                    return await self._find_primary(None, options)
        return await self._find_primary(self._leader, options)

    def direct(self, settings: Settings) -> PrimaryConnector:
        """A connector that bypasses PgBouncer, for features that need a session."""
        if settings.database_direct_url is None:
            return self
        return PrimaryConnector(settings.database_direct_url, settings, self.leadership)

    async def look_round(self) -> None:
        """Probe all servers; a new primary is recorded. Raises like `connect`."""
        if self._hosts:
            (await self._find_primary(None, {"connection_class": KeepAliveConnection})).terminate()

    async def _find_primary(self, leader: Host | None, options: Mapping[str, Any]) -> asyncpg.Connection:
        """Ask the last primary first. Ask all others too if it is unknown, fails, or is silent for `HEAD_START`.

        After a doubt the highest timeline wins: an old primary that does not know of its successor may answer first.
        """
        rest = [host for host in self._hosts if host != leader]
        host_by_task: dict[asyncio.Task[_ServerReply], Host] = {}
        best: _ServerReply | None = None
        failed: dict[Host, BaseException | str] = {}
        self._start_probes(host_by_task, [leader] if leader else [], options)
        try:
            while host_by_task or rest:
                if not host_by_task:
                    self._start_probes(host_by_task, rest, options)
                done, _ = await asyncio.wait(
                    host_by_task, timeout=HEAD_START if rest else None, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    host = host_by_task.pop(task)
                    if (error := task.exception()) is not None:
                        failed[host] = error
                        continue
                    answer = task.result()
                    best, refused = self._better(best, answer)
                    if refused is not None:
                        failed[refused.host] = "replica" if not refused.timeline else "no longer the primary"
                        refused.raw.terminate()
                if best is not None and (best.host == leader or self.leadership.is_new(best.system, best.timeline)):
                    break
                if not done:  # the last primary is silent
                    self._start_probes(host_by_task, rest, options)
            if best is not None:
                return self._accept(best)
        except BaseException:
            if best is not None:
                best.raw.terminate()
            raise
        finally:
            for task in host_by_task:
                task.add_done_callback(_drop)
                task.cancel()
        raise self._failure(failed)

    def _start_probes(
        self, host_by_task: dict[asyncio.Task[_ServerReply], Host], hosts: list[Host], options: Mapping[str, Any]
    ) -> None:
        for host in hosts:
            host_by_task[asyncio.create_task(self._probe(host, options))] = host
        hosts.clear()

    async def _probe(self, host: Host, options: Mapping[str, Any]) -> _ServerReply:
        async with asyncio.timeout(self._seconds):
            raw = await open_session(self.dsn, host=host.name, port=host.port, **options)
            try:
                row = await raw.fetchrow(LEADS)
                assert row is not None  # noqa: S101 - a row by its form
                return _ServerReply(host, raw, row["system"], int(row["timeline"] or "0", 16))
            except BaseException:
                raw.terminate()
                raise

    def _better(
        self, best: _ServerReply | None, answer: _ServerReply
    ) -> tuple[_ServerReply | None, _ServerReply | None]:
        """The better of two answers, and the rejected one."""
        if not answer.timeline or self.leadership.is_over(answer.system, answer.timeline):
            return best, answer
        if best is None or answer.timeline > best.timeline:
            return answer, best
        return best, answer

    def _accept(self, answer: _ServerReply) -> asyncpg.Connection:
        self.leadership.learn(answer.system, answer.timeline)  # this resets the known primary if it is another one
        if self._leader not in (None, answer.host):
            self.leadership.renew()
        self._leader = answer.host
        return answer.raw

    def _failure(self, failed: Mapping[Host, BaseException | str]) -> BaseException:
        self._leader = None
        reasons = [
            f"{host}: {error_or_reason if isinstance(error_or_reason, str) else _reason(error_or_reason)}"
            for host, error_or_reason in failed.items()
        ]
        self._last_error = NoPrimary(f"no server is the primary ({'; '.join(reasons)})")
        for error in failed.values():  # errors unrelated to the primary, such as a wrong password
            if isinstance(error, asyncpg.PostgresError) and not is_shutting_down(error):
                self._last_error = error
        self._failed_at = time.monotonic()
        return self._last_error

    def _on_reset(self, _moved: bool) -> None:
        self._leader = None


def _reason(error: BaseException) -> str:
    return "silent" if isinstance(error, TimeoutError) else cause(error)


def _drop(task: asyncio.Task[_ServerReply]) -> None:
    """Close the connection of a probe that is not needed any more."""
    if not task.cancelled() and task.exception() is None:
        task.result().raw.terminate()


def _keep_alive(pseudo: Any) -> None:
    """Enable TCP keep-alive on the OS socket; some event loops' socket wrapper lacks the options."""
    if pseudo is None or pseudo.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with socket.fromfd(pseudo.fileno(), pseudo.family, socket.SOCK_STREAM) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        with suppress(AttributeError, OSError):  # Linux options
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE)
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, INTERVAL)
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED * 1000)
