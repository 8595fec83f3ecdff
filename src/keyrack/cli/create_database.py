"""Decides whether a command may create the embedded database if there is none.

A server whose `KEYRACK_DATABASE_URL` is lost must not look like an empty but working Keyrack. So only three commands
create a database: one with `--state`, `keyrack migrate`, and `keyrack serve` on a terminal. The latter two do so only
if no setting points to an external database.
"""

from __future__ import annotations

import os

import structlog

from keyrack.cli.database_opening import demo_below, embedded_server, no_database
from keyrack.cli.environment import given
from keyrack.cli.output import CommandFailed
from keyrack.core.settings import Settings, unknown, variable

log = structlog.get_logger("keyrack.postgres")

# Settings of an external database: an embedded one ignores them or does not need them
ELSEWHERE = (
    "database_direct_url", "read_database_url", "database_ha", "database_connect_seconds",
    "primary_lease_seconds", "statement_cache", "master_key", "master_key_file",
)  # fmt: skip
STDIN = 0
ADDRESS = (variable("database_url"), variable("database_url", by_file=True))
BEGINNERS = ("serve", "migrate")

LOST = (
    "There is no database in {state}, but {sign}. Is KEYRACK_DATABASE_URL missing? To create an embedded database, run "
    "`keyrack {command} --state {state}`."
)
UNATTENDED = (
    "There is no database in {state}, and without a terminal `keyrack serve` creates none. Set KEYRACK_DATABASE_URL, "
    "or create an embedded database with `keyrack serve --state {state}`."
)


def check_beginning(settings: Settings, command: str, *, named: bool) -> None:
    """Check that the database exists or may be created.

    `named` is whether `--state` set its directory. Raises `CommandFailed` if it may not be created, and
    `EmbeddedServerError` if the directory has backups of a lost database.
    """
    if settings.database_url is not None or (server := embedded_server(settings)).made:
        return
    server.refuse_beginning()
    if not named:
        if command not in BEGINNERS:
            raise no_database(settings)
        if (sign := _sign(settings)) is not None:
            raise CommandFailed(LOST.format(state=settings.state, sign=sign, command=command), demo_below(settings))
        if command == "serve" and not os.isatty(STDIN):
            raise CommandFailed(UNATTENDED.format(state=settings.state), demo_below(settings))
    if command in BEGINNERS:  # others have no log
        log.warning("creating new embedded database", state=str(settings.state))


def _sign(settings: Settings) -> str | None:
    """The first indication of an external database, as a clause, or None."""
    for name in ADDRESS:
        if name in os.environ:  # and it is empty
            return f"{name} is empty"
    for strange, meant in unknown(Settings, os.environ).items():
        if meant in ADDRESS:
            return f"{strange} is set, which is not a setting ({meant} is)"
    for name in ELSEWHERE:
        if name in settings.model_fields_set:
            return f"{given(name)} is set, which belongs to an external database"
    if "NOTIFY_SOCKET" in os.environ:
        return "systemd started this process"
    return None
