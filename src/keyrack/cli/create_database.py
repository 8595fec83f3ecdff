"""In charge of whether a command may make the embedded database where there is none yet.

A `KEYRACK_DATABASE_URL` that was lost is not to look like an empty Keyrack that is well. So one is made only where that
is said plainly: by `--state`, by `keyrack migrate`, or by somebody who types `keyrack serve` at a terminal; and the
latter two only while nothing speaks of a database elsewhere.
"""

from __future__ import annotations

import os

import structlog

from keyrack.cli.database_session import demo_below, embedded_server, no_database
from keyrack.cli.environment import given
from keyrack.cli.output import CommandFailed
from keyrack.core.settings import Settings, unknown, variable

log = structlog.get_logger("keyrack.postgres")

# Settings of a database of one's own: of an embedded one they are not needed, or say nothing
ELSEWHERE = (
    "database_direct_url", "read_database_url", "database_ha", "database_connect_seconds",
    "primary_lease_seconds", "statement_cache", "master_key", "master_key_file",
)  # fmt: skip
STDIN = 0
ADDRESS = (variable("database_url"), variable("database_url", by_file=True))
BEGINNERS = ("serve", "migrate")

LOST = (
    "There is no database in {state}, and {sign}: is KEYRACK_DATABASE_URL lost? If an embedded database is meant, "
    "`keyrack {command} --state {state}` makes one there."
)
UNATTENDED = (
    "There is no database in {state}, and without a terminal `keyrack serve` makes none: a lost KEYRACK_DATABASE_URL "
    "would look like an empty Keyrack. Set it, or say `keyrack serve --state {state}`, which makes an embedded "
    "database there."
)


def check_beginning(settings: Settings, command: str, *, named: bool) -> None:
    """Look whether the database is there, or may be made: `named` says that its directory was, by `--state`.

    Raises `CommandFailed`: it may not. Raises `EmbeddedServerError`: there are backups of what was there.
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
    """What speaks of a database elsewhere, in words; None where nothing does."""
    for name in ADDRESS:
        if name in os.environ:  # and it is empty
            return f"{name} is set to nothing"
    for strange, meant in unknown(Settings, os.environ).items():
        if meant in ADDRESS:
            return f"{strange} is no setting, but {meant} is"
    for name in ELSEWHERE:
        if name in settings.model_fields_set:
            return f"{given(name)} is of a database elsewhere"
    if "NOTIFY_SOCKET" in os.environ:
        return "systemd starts this"
    return None
