"""In charge of the servers that the addresses name: that each answers, who leads, who stands between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, LiteralString

import asyncpg

from keyrack.core.log_config import cause
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
    """What a server says of itself; `leads` is None where it says nothing, and `reason` why not."""

    leads: bool | None
    system: int = 0
    reason: str = ""


async def examined(dsn: str, settings: Settings) -> list[Finding]:
    """The servers of the database's address, those that reads go to, and who stands between."""
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
    except (TimeoutError, *UNREACHABLE, asyncpg.PostgresError) as error:
        return ServerReply(None, reason="it says nothing" if isinstance(error, TimeoutError) else cause(error))


def _leading(replies: dict[Host, ServerReply]) -> Iterator[Finding]:
    """One of them has to lead; one that is away is no fault where another one leads."""
    leaders = sum(bool(answer.leads) for answer in replies.values())
    for host, answer in replies.items():
        if answer.leads is None:
            say = warning if leaders else failure
            yield say(
                "servers", f"{host} cannot be reached: {answer.reason}", "Look whether it runs, and at the way to it."
            )
        else:
            yield ok("servers", f"{host} {'leads' if answer.leads else 'follows'}")
    if replies and leaders != 1:
        text = f"{leaders or 'None'} of the servers {'lead' if leaders else 'leads'}."
        yield failure("servers", text, "One has to: `patronictl list` shows who should (docs/high-availability.md).")


def _reading(replies: dict[Host, ServerReply], system: int | None) -> Iterator[Finding]:
    """None has to follow: the leader answers what nobody else may."""
    for host, answer in replies.items():
        if answer.leads is None:
            yield warning(
                "read-servers", f"{host}, which reads go to, cannot be reached: {answer.reason}",
                "Look whether it runs, and at the way to it. Until then others answer.",
            )  # fmt: skip
        elif system is not None and answer.system != system:
            yield failure(
                "read-servers", f"{host}, which reads go to, is of another system than the leader: it is never asked.",
                "Correct KEYRACK_READ_DATABASE_URL, or build the replica anew.",
            )  # fmt: skip
        else:
            yield ok("read-servers", f"{host} {'leads: it answers' if answer.leads else 'follows: it takes'} reads")
    if replies and not any(answer.leads is False for answer in replies.values()):
        yield warning(
            "read-servers", "No server of KEYRACK_READ_DATABASE_URL follows: the leader answers all reads.",
            "See docs/replicas.md.",
        )  # fmt: skip


async def pooled(dsn: str, settings: Settings) -> list[Finding]:
    """Whether somebody stands between: PgBouncer gives its clients another process id than the server's."""
    try:
        async with asyncio.timeout(SECONDS):
            raw: Any = await asyncpg.connect(dsn, statement_cache_size=0)
            try:
                between = raw.get_server_pid() != await raw.fetchval("select pg_backend_pid()")
            finally:
                raw.terminate()
    except (TimeoutError, *UNREACHABLE, asyncpg.PostgresError):
        return []  # which the servers have told
    if not between:
        return [ok("pooler", "nobody stands between Keyrack and the server")]
    lines = [ok("pooler", "PgBouncer, or something like it, stands between Keyrack and the server")]
    if settings.database_direct_url is None:
        lines.append(
            failure(
                "pooler", "KEYRACK_DATABASE_DIRECT_URL is not set: notices and migrations cannot go through it.",
                "Set it to the address of the server itself.",
            )
        )  # fmt: skip
    if settings.statement_cache:
        lines.append(
            warning(
                "pooler", f"KEYRACK_STATEMENT_CACHE is {settings.statement_cache}.",
                "Set it to 0, unless it is PgBouncer 1.21 or newer with max_prepared_statements.",
            )
        )  # fmt: skip
    return lines
