"""Checks of accounts of managers and drivers, and of machine clients."""

from __future__ import annotations

from typing import LiteralString

from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Row
from keyrack.ops.doctor.result import ok, warning
from keyrack.ops.monitoring.findings import Finding

LISTED = 20  # names in a finding
UNPROVEN: LiteralString = """
select username, count(*) over () as total from manager m
where proven_at is null and not is_disabled and username like '%@%'
  and (select count(*) from manager_customer c where c.manager_id = m.manager_id) > 1
order by manager_id limit $1
"""
# The first proof removes all sign-in methods. So a node of an older release, or SQL, has added these later
OLDER: LiteralString = """
select username, count(*) over () as total from manager m
where proven_at is not null and not is_disabled and (
  exists (select from passkey w where w.manager_id = m.manager_id and w.created_at < m.proven_at)
  or exists (select from totp w where w.manager_id = m.manager_id and w.created_at < m.proven_at)
  or exists (select from recovery w where w.manager_id = m.manager_id and w.created_at < m.proven_at)
  or exists (select from manager_identity w where w.manager_id = m.manager_id and w.created_at < m.proven_at)
  or exists (select from session w where w.manager_id = m.manager_id and w.created_at < m.proven_at
    and w.sign_outs = m.sign_outs))
order by manager_id limit $1
"""
CLIENTS_BY_SPEC: LiteralString = """
select name, count(*) over () as total from client where mode = 'spec' order by client_id limit $1
"""
DRIVERS: LiteralString = "select count(*) from driver_account"


async def examined(connection: Connection, settings: Settings) -> list[Finding]:
    """Check accounts of managers and drivers, and modes of machine clients."""
    return [*await _managers(connection), *await _drivers(connection, settings), await _clients(connection)]


async def _managers(connection: Connection) -> list[Finding]:
    findings: list[Finding] = []
    if rows := await connection.fetch(UNPROVEN, LISTED):
        findings.append(
            warning(
                "unproven-managers",
                f"These managers act for several customers with an unproven address: {_names(rows)}.",
                "Ask each person whether the account is theirs. Then run `keyrack manager prove USERNAME`. It removes"
                " all sign-in methods and prints a link for a new password (docs/managers.md, Proven addresses).",
            )
        )
    if rows := await connection.fetch(OLDER, LISTED):
        findings.append(
            warning(
                "older-ways-in",
                f"These managers have a sign-in method that is older than the proof of their address: {_names(rows)}.",
                "Run `keyrack manager reset-password USERNAME` to list the methods. Remove them with `keyrack manager"
                " reset-factors`, `disconnect` and `sign-out`.",
            )
        )
    return findings or [ok("managers", "every manager that acts for several customers has a proven address")]


async def _drivers(connection: Connection, settings: Settings) -> list[Finding]:
    count = await connection.fetchval(DRIVERS)
    if not count or settings.sends_mail:
        return [ok("drivers", f"accounts of drivers: {count}")]
    return [
        warning(
            "drivers",
            f"{count} drivers have an account, and no mail is sent. A driver who forgets the password needs an"
            " invitation from a manager, and no driver can prove a mailbox.",
            "Set KEYRACK_MAIL_HOST and KEYRACK_MAIL_FROM (docs/drive.md, Mail).",
        )
    ]


async def _clients(connection: Connection) -> Finding:
    """The machine clients without strict checks. It is information: their programs may rely on that."""
    rows = await connection.fetch(CLIENTS_BY_SPEC, LISTED)
    if not rows:
        return ok("client-modes", "every machine client has the mode strict")
    names = _names(rows, "name")
    return ok("client-modes", f"machine clients with the mode spec (docs/machine-clients.md, Mode): {names}")


def _names(rows: list[Row], column: str = "username") -> str:
    more = rows[0]["total"] - len(rows)
    return ", ".join(row[column] for row in rows) + (f" and {more} more" if more else "")
