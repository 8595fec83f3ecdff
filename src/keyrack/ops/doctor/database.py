"""Database checks: servers, clock, version, durability, schema, secrets and backups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, LiteralString

import asyncpg

from keyrack.auth import usernames
from keyrack.auth.sso import providers
from keyrack.core.log_config import cause
from keyrack.core.settings import Cell, Settings
from keyrack.db import archive_status, process_registry, schema_version, search_text, standbys
from keyrack.db.connection import UNREACHABLE, Connection, Row
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.master_keys import MasterKeyError
from keyrack.db.replication.primary_connector import hosts_of
from keyrack.fleet import person_lookup
from keyrack.ops import text_normal_form
from keyrack.ops.doctor import accounts, box_keys, servers, shared_persons
from keyrack.ops.doctor.cell_range import examine_identity
from keyrack.ops.doctor.result import failure, ok, warning
from keyrack.ops.monitoring import status
from keyrack.ops.monitoring.findings import Finding, duration, evaluate
from keyrack.ops.monitoring.status import DatabaseUnknown, StatusSnapshot

CONFLICTS = 20  # maximum number of listed pairs with the same address
RENAME_MANAGER = "Run `keyrack manager change {0} --username NAME --enable`, or `keyrack manager remove {0}`."
EXTENSIONS = "create extension if not exists pg_trgm; create extension if not exists btree_gin"
BOOKING_EXTENSION = "create extension if not exists btree_gist"
BOOKING_CONSTRAINT = "select create_booking_constraint()"
HAS_BOOKING_CONSTRAINT: LiteralString = """
select exists (select from pg_constraint where conname = 'booking_overlap' and conrelid = to_regclass('booking'))
"""
OF_PROCESS = 4  # connections of a process outside its pool
CLOCK = 2.0  # maximum difference of two clocks (seconds)
# Earlier releases have known vulnerabilities (CVE-2025-12817, CVE-2025-12818)
MINOR = {15: 15, 16: 11, 17: 7, 18: 1}

FACTS: LiteralString = """
select clock_timestamp() as now, current_setting('server_version_num')::integer as version,
  current_setting('server_version') as version_text, current_setting('data_checksums') = 'on' as checksums,
  current_setting('fsync') = 'on' as fsync, current_setting('full_page_writes') = 'on' as full_page_writes,
  current_setting('synchronous_commit') as synchronous_commit,
  current_setting('synchronous_standby_names') as synchronous_standby_names,
  coalesce(current_setting('client_connection_check_interval', true), '0') as check_interval,
  current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer as room,
  (select rolsuper from pg_roles where rolname = current_user) as superuser, current_user::text as role
"""
INVALID: LiteralString = """
select array(select indexrelid::regclass::text from pg_index where not indisvalid order by 1 limit 20) as indexes,
  array(select tgname::text from pg_trigger where tgenabled = 'D' and not tgisinternal order by 1 limit 20) as triggers
"""


SEALED: LiteralString = "select exists (select from data_key)"


async def examined(cell: Cell) -> list[Finding]:
    """Check the database of a cell, its servers first."""
    settings = cell.settings
    try:
        picture = await status.collect_status(settings)
    except DatabaseUnknown as error:
        lines = [] if settings.database_url is None else await servers.examined(settings.database_url, settings)
        return [*lines, failure("database", str(error), "Check that it runs, and that this machine can reach it.")]
    if not picture.running:
        text = f"The embedded database in {picture.database} does not run, so it was not checked."
        return [warning("database", text, "Start it with `keyrack serve`, and check again.")]
    lines: list[Finding] = []
    if (dsn := settings.database_url) is not None:
        lines += [*await servers.examined(dsn, settings), *await servers.pooled(dsn, settings)]
    try:
        async with asyncio.timeout(status.LONGEST), status.opened(settings) as raw:
            lines += await _inside(Connection(raw), cell, picture)
    except (TimeoutError, *UNREACHABLE, asyncpg.PostgresError) as error:
        lines.append(failure("database", f"The connection to the database was lost: {cause(error)}", "Check again."))
    return lines


async def _inside(connection: Connection, cell: Cell, picture: StatusSnapshot) -> list[Finding]:
    settings = cell.settings
    before = datetime.now(UTC)
    facts: Any = await connection.fetchrow(FACTS)
    after = datetime.now(UTC)
    broken: Any = await connection.fetchrow(INVALID)
    lines = [*clock(before, facts["now"], after), *_version(facts), *_safety(facts), *_role(facts, settings)]
    lines += [finding for finding in evaluate(picture) if finding.code.startswith(("schema", "database-read-only"))]
    if picture.schema is not None and picture.schema.state is schema_version.SchemaState.CURRENT:
        lines.append(ok("schema", f"the schema is at revision {picture.schema.revision}"))
        try:
            await schema_version.read_schema_state(status.address(settings), settings)
            lines.append(ok("rights", f"the role {facts['role']} has the rights that it needs"))
        except schema_version.SchemaError as error:
            lines.append(
                failure(
                    "rights", str(error), "Change the owner with `alter database ... owner to ...` or `reassign owned`."
                )
            )
        if cell.is_one_of_several:
            lines += await examine_identity(connection, cell)
        lines += await _secrets(connection, settings)
        lines += await accounts.examined(connection, settings)
        lines += await _addresses(connection)
        lines += await shared_persons.examined(connection, settings)
        lines += await _search_indexes(connection)
        lines.append(await _booking_constraint(connection))
        lines += await _texts(connection)
        lines += _connections(await process_registry.processes(connection), facts, settings)
    for name in broken["indexes"]:
        lines.append(warning("indexes", f"The index {name} is not valid.", f"Run `reindex index concurrently {name}`."))
    for name in broken["triggers"]:
        text = f"The trigger {name} is disabled."
        lines.append(failure("triggers", text, f"Run `alter table ... enable trigger {name}`."))
    if not broken["indexes"] and not broken["triggers"]:
        lines.append(ok("indexes", "every index is valid, and every trigger is enabled"))
    lines += _standbys(await standbys.standbys(connection), facts, settings)
    return [*lines, *_archive(await archive_status.standing(connection)), *_backups(picture)]


def clock(before: datetime, there: datetime, after: datetime) -> Iterator[Finding]:
    """Compare the database's clock with two readings of this machine's clock."""
    ahead = max((before - there).total_seconds(), (there - after).total_seconds(), 0.0)
    if ahead > CLOCK:
        yield failure(
            "clock", f"The clocks of this machine and of the database differ by at least {duration(ahead)}.",
            "Synchronise both with the same time servers (chrony, systemd-timesyncd). Tokens and limits need it.",
        )  # fmt: skip
    else:
        yield ok("clock", "the clocks of this machine and of the database agree")


def _version(facts: Any) -> Iterator[Finding]:
    major, minor = divmod(facts["version"], 10_000)
    version = facts["version_text"].split()[0]
    if major < min(MINOR):
        yield failure("version", f"PostgreSQL {version} is too old.", f"Upgrade to PostgreSQL {min(MINOR)} or newer.")
    elif minor < MINOR.get(major, 0):
        yield warning(
            "version", f"PostgreSQL {version} has known vulnerabilities.",
            f"Install the newest release of PostgreSQL {major}, at least {major}.{MINOR[major]}.",
        )  # fmt: skip
    else:
        yield ok("version", f"PostgreSQL {version}")


def _safety(facts: Any) -> Iterator[Finding]:
    off = [name for name in ("fsync", "full_page_writes") if not facts[name]]
    off += ["synchronous_commit"] if facts["synchronous_commit"] in ("off", "local") else []
    for name in off:
        yield failure("durability", f"{name} is not `on`, so acknowledged writes can be lost.", f"Set {name} to on.")
    if not off:
        yield ok("durability", "acknowledged writes are on disk")
    if facts["checksums"]:
        yield ok("checksums", "data checksums are enabled")
    else:
        yield warning(
            "checksums", "Data checksums are disabled, so corruption on disk is not detected.",
            "Stop the server, and run `pg_checksums --enable`.",
        )  # fmt: skip
    if facts["check_interval"] not in ("0", "0ms"):
        yield warning(
            "check-interval", "client_connection_check_interval is set, so a waiting commit can be cancelled.",
            "Set it to 0, its default (docs/high-availability.md, What Keyrack does).",
        )  # fmt: skip


def _role(facts: Any, settings: Settings) -> Iterator[Finding]:
    if facts["superuser"] and settings.database_url is not None:
        yield warning(
            "role", f"The role {facts['role']} is a superuser, which Keyrack does not need.",
            "Use a role that owns only Keyrack's database (docs/database.md, A single PostgreSQL).",
        )  # fmt: skip


async def _secrets(connection: Connection, settings: Settings) -> list[Finding]:
    if not await connection.fetchval(SEALED):
        return [ok("secrets", "the database has no encrypted secrets yet")]
    vault = Encryption(connection, settings)
    try:
        await vault.load()
    except MasterKeyError as error:
        return [failure("secrets", str(error), "See docs/secrets.md, The master key.")]
    secrets = ok("secrets", "this node's master key decrypts the database's secrets")
    return [secrets, *await box_keys.examined(connection, vault)]


async def _addresses(connection: Connection) -> list[Finding]:
    """Find rows with the address of an earlier row."""
    lines: list[Finding] = []
    for row in await usernames.MANAGERS.conflicts(connection, CONFLICTS):
        text = f"{_pair('manager', row)} Manager {row['id']} is disabled and cannot sign in."
        lines.append(failure("addresses", text, RENAME_MANAGER.format(row["id"])))
    for row in await person_lookup.PERSONS.conflicts(connection, CONFLICTS):
        text = f"{_pair('user', row)} The address only finds user {row['holder']}."
        lines.append(failure("addresses", text, f"Run `keyrack user change {row['id']} --address ADDRESS`."))
    for row in await providers.domain_conflicts(connection):
        text = (
            f"Domain {row['domain']} of provider {row['name']} is the domain {row['form']} of provider {row['holder']}."
        )
        remedy = f"Run `keyrack provider change {row['name']} --remove-domain {row['domain']}`."
        lines.append(failure("addresses", text, remedy))
    return lines or [ok("addresses", "every address belongs to one manager and one user")]


async def _texts(connection: Connection) -> list[Finding]:
    lines = [
        failure(
            "texts", f"{row['text']!r} in the table {row['table']} is not in NFC, and another row has its NFC form.",
            "Rename one of the two. They look the same, but a filter only finds the one in NFC.",
        )
        for row in await text_normal_form.collisions(connection)
    ]  # fmt: skip
    return lines or [ok("texts", "every text that must be unique is in NFC")]


async def _search_indexes(connection: Connection) -> list[Finding]:
    if not (statements := await search_text.missing_indexes(connection)):
        return [ok("search", "searches have indexes")]
    return [
        warning(
            "search", "Searches have no index, so each reads all cars or users of its customer.",
            f"Run `{EXTENSIONS}` in Keyrack's database as a superuser. Then run `{'; '.join(statements)}`.",
        )
    ]  # fmt: skip


async def _booking_constraint(connection: Connection) -> Finding:
    if await connection.fetchval(HAS_BOOKING_CONSTRAINT):
        return ok("bookings", "the database rejects overlapping exclusive assignments")
    return warning(
        "bookings",
        "The database has no constraint against overlapping exclusive assignments. The rule alone prevents them.",
        f"Run `{BOOKING_EXTENSION}` in Keyrack's database as a superuser. Then run `{BOOKING_CONSTRAINT}` as its role.",
    )


def _pair(noun: str, row: Row) -> str:
    holder, other = f"{row['holder']} ({row['holder_address']})", f"{row['id']} ({row['address']})"
    return f"The {noun}s {holder} and {other} have the same address."


def _connections(processes: tuple[process_registry.Presence, ...], facts: Any, settings: Settings) -> Iterator[Finding]:
    count = len({(process.host, process.pid) for process in processes if process.lives}) or 1
    needed = count * (settings.pool_size + OF_PROCESS)
    many = f"{count} {'process' if count == 1 else 'processes'}"
    text = f"{many} with KEYRACK_POOL_SIZE {settings.pool_size} may use {needed} of {facts['room']} connections"
    if needed > facts["room"]:
        yield warning(
            "connections", f"{text}.", "Raise the server's max_connections, lower KEYRACK_POOL_SIZE, or use PgBouncer."
        )
    else:
        yield ok("connections", text)


def _standbys(replicas: tuple[standbys.Standby, ...], facts: Any, settings: Settings) -> Iterator[Finding]:
    several = settings.database_url is not None and len(hosts_of(settings.database_url)) > 1
    if any(replica.state is None for replica in replicas):
        yield warning(
            "replicas", "The lag of replicas is not visible.",
            f"Run `grant pg_monitor to {facts['role']}`, so that status and metrics show it.",
        )  # fmt: skip
    if several and not facts["synchronous_standby_names"]:
        yield warning(
            "synchronous", "No standby is synchronous, so acknowledged writes can be lost with the primary.",
            "Set synchronous_mode of Patroni (docs/high-availability.md).",
        )  # fmt: skip
    elif facts["synchronous_standby_names"]:
        yield ok("synchronous", f"commits wait for {facts['synchronous_standby_names']}")


def _archive(archive: archive_status.ArchiveStatus) -> Iterator[Finding]:
    if not archive.on:
        yield warning(
            "archive", "The write-ahead log is not archived, so changes after the last backup cannot be restored.",
            "Set KEYRACK_BACKUP_DIRECTORY for the embedded database. For others, see docs/backups.md.",
        )  # fmt: skip
    elif archive.late or archive.failing:
        yield failure(
            "archive",
            "The archiving of the write-ahead log fails or is late.",
            "Read the database's log for the cause.",
        )
    else:
        yield ok("archive", "the write-ahead log is archived")


def _backups(picture: StatusSnapshot) -> Iterator[Finding]:
    wrong = [finding for finding in evaluate(picture) if finding.code == "backups"]
    yield from wrong
    if picture.backups is not None and not wrong:
        yield ok("backups", f"the last full backup is {picture.backups.name}")
