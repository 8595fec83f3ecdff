"""Server checks: reachability, primary, replicas and connection pooler."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, LiteralString

import asyncpg

from keyrack.core.log_config import cause
from keyrack.core.os_errors import connection_failure
from keyrack.core.settings import Settings
from keyrack.db.connection import UNREACHABLE
from keyrack.db.replication.primary_connector import Host, hosts_of
from keyrack.ops.doctor.result import failure, ok, warning
from keyrack.ops.monitoring.findings import Finding

SECONDS = 5.0  # for each server
WHO: LiteralString = """
select not pg_is_in_recovery() as leads, (select system_identifier from pg_control_system()) as system
"""


@dataclass(frozen=True, slots=True)
class ServerReply:
    """The reply of a server. Without a reply, `leads` is None, and `reason` has the cause."""

    leads: bool | None
    system: int = 0
    reason: str = ""


async def examined(dsn: str, settings: Settings) -> list[Finding]:
    """Check the servers of the database's address and the read replicas."""
    replies = await _query_servers(dsn)
    lines = [*_leading(replies)]
    if settings.read_database_url is not None:
        system = next((answer.system for answer in replies.values() if answer.leads), None)
        lines += _reading(await _query_servers(settings.read_database_url), system)
    return lines


async def _query_servers(dsn: str) -> dict[Host, ServerReply]:
    hosts = hosts_of(dsn)
    return dict(zip(hosts, await asyncio.gather(*(_ask(dsn, host) for host in hosts)), strict=True))


async def _ask(dsn: str, host: Host) -> ServerReply:
    try:
        async with asyncio.timeout(SECONDS):
            raw: Any = await asyncpg.connect(dsn, host=host.name, port=host.port, statement_cache_size=0)
            try:
                row = await raw.fetchrow(WHO)
                return ServerReply(row["leads"], row["system"])
            finally:
                raw.terminate()
    except TimeoutError:
        return ServerReply(None, reason="no response")
    except asyncpg.PostgresError as error:
        return ServerReply(None, reason=cause(error))
    except UNREACHABLE as error:
        return ServerReply(None, reason=connection_failure(error))


def _leading(replies: dict[Host, ServerReply]) -> Iterator[Finding]:
    """Exactly one server must be the primary. An unreachable one is only a warning if there is a primary."""
    leaders = sum(bool(answer.leads) for answer in replies.values())
    for host, answer in replies.items():
        if answer.leads is None:
            say = warning if leaders else failure
            yield say(
                "servers", f"{host} cannot be reached: {answer.reason}", "Check that it runs, and the network to it."
            )
        else:
            yield ok("servers", f"{host} is {'the primary' if answer.leads else 'a standby'}")
    if replies and leaders != 1:
        text = f"{leaders} servers are primaries." if leaders else "No server is the primary."
        yield failure("servers", text, "Run `patronictl list` to see which one should be (docs/high-availability.md).")


def _reading(replies: dict[Host, ServerReply], system: int | None) -> Iterator[Finding]:
    """A read replica is optional, because the primary answers all other reads."""
    for host, answer in replies.items():
        if answer.leads is None:
            yield warning(
                "read-servers", f"The read replica {host} cannot be reached: {answer.reason}",
                "Check that it runs, and the network to it. Until then, other servers answer its reads.",
            )  # fmt: skip
        elif system is not None and answer.system != system:
            yield failure(
                "read-servers",
                f"The read replica {host} has another system identifier than the primary, so it is unused.",
                "Correct KEYRACK_READ_DATABASE_URL, or rebuild the replica.",
            )  # fmt: skip
        else:
            yield ok("read-servers", f"{host} is {'the primary' if answer.leads else 'a standby'} and answers reads")
    if replies and not any(answer.leads is False for answer in replies.values()):
        yield warning(
            "read-servers", "No server of KEYRACK_READ_DATABASE_URL is a standby, so the primary answers all reads.",
            "See docs/replicas.md.",
        )  # fmt: skip


async def pooled(dsn: str, settings: Settings) -> list[Finding]:
    """Check for a pooler: PgBouncer shows its clients another process id than the server's."""
    try:
        async with asyncio.timeout(SECONDS):
            raw: Any = await asyncpg.connect(dsn, statement_cache_size=0)
            try:
                between = raw.get_server_pid() != await raw.fetchval("select pg_backend_pid()")
            finally:
                raw.terminate()
    except (TimeoutError, *UNREACHABLE, asyncpg.PostgresError):
        return []  # the checks of the servers report it
    if not between:
        return [ok("pooler", "Keyrack connects to the server without a pooler")]
    lines = [ok("pooler", "Keyrack connects through PgBouncer or a similar pooler")]
    if settings.database_direct_url is None:
        lines.append(
            failure(
                "pooler", "KEYRACK_DATABASE_DIRECT_URL is not set, but notifications and migrations need it.",
                "Set it to the address of the server itself.",
            )
        )  # fmt: skip
    if settings.statement_cache:
        lines.append(
            warning(
                "pooler", f"KEYRACK_STATEMENT_CACHE is {settings.statement_cache}, which not every pooler supports.",
                "Set it to 0, unless the pooler is PgBouncer 1.21 or newer with max_prepared_statements.",
            )
        )  # fmt: skip
    return lines
