"""In charge of the verdict on a picture: what is a warning and what is critical, in words, and what to do about it.

The numbers are those of the alerts (`limits`, and where something is known).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum

from keyrack import __version__
from keyrack.db import schema_version
from keyrack.ops.monitoring import thresholds
from keyrack.ops.monitoring.backlog import Backlog
from keyrack.ops.monitoring.status import StatusSnapshot


class Severity(IntEnum):
    """How bad it is: the exit status that monitoring programs expect."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: a code for programs, and for people what it is and what to do."""

    level: Severity
    code: str
    text: str
    action: str


def duration(seconds: float) -> str:
    """A span of time in its one or two largest units.

    >>> [duration(n) for n in (0.4, 59, 61, 3_600, 90_000)]
    ['0 s', '59 s', '1 min 1 s', '1 h', '1 d 1 h']
    """
    left = int(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def verdict(findings: list[Finding]) -> Severity:
    """The worst of them."""
    return max((finding.level for finding in findings), default=Severity.OK)


def evaluate(picture: StatusSnapshot) -> list[Finding]:
    """What is wrong, the worst first."""
    findings = [*_of_database(picture), *_of_machine(picture)]
    if picture.backlog is not None:
        findings += [*_of_work(picture, picture.backlog), *_of_server(picture.backlog)]
    findings += _of_certificates(picture)
    return sorted(findings, key=lambda finding: -finding.level)


def _of_database(picture: StatusSnapshot) -> Iterator[Finding]:
    if not picture.running:
        yield Finding(
            Severity.CRITICAL,
            "not-running",
            f"Nothing of Keyrack runs on the embedded database in {picture.database}.",
            "Start it: `keyrack serve`. If it should run, the end of its log says why it does not.",
        )
    if picture.standby:
        yield Finding(
            Severity.CRITICAL, "database-read-only", "The database's server is a standby: it takes no writes.",
            "Promote it, or name the one that leads in KEYRACK_DATABASE_URL: several hosts may stand there.",
        )  # fmt: skip
    if picture.schema is None:
        return
    head = schema_version.head()
    at = f"The schema is at revision {picture.schema.revision}; this Keyrack, {__version__}, knows {head}."
    match picture.schema.state:
        case schema_version.SchemaState.EMPTY if picture.schema.mend_search_path is not None:
            yield Finding(
                Severity.CRITICAL, "schema-search-path", schema_version.OFF_SEARCH_PATH,
                f"`{picture.schema.mend_search_path}`, then start Keyrack again.",
            )  # fmt: skip
        case schema_version.SchemaState.EMPTY:
            yield Finding(
                Severity.CRITICAL, "schema-empty", "The database is empty.", "`keyrack migrate` or `serve` fill it."
            )
        case schema_version.SchemaState.OLDER:
            yield Finding(
                Severity.CRITICAL,
                "schema-older",
                f"{at} What it lacks is not shown here.",
                "`keyrack migrate --plan` says what is to be done, docs/upgrading.md how.",
            )
        case schema_version.SchemaState.TOO_NEW:
            yield Finding(
                Severity.CRITICAL,
                "schema-too-new",
                at,
                "Start the newer release: this one does not work with that schema.",
            )
        case schema_version.SchemaState.NEWER:
            yield Finding(
                Severity.WARNING, "schema-newer", at, "Let the newer release take over: docs/upgrading.md.",
            )  # fmt: skip
        case schema_version.SchemaState.CURRENT:
            pass


def _of_work(picture: StatusSnapshot, backlog: Backlog) -> Iterator[Finding]:
    if not backlog.living("serve"):
        yield Finding(
            Severity.CRITICAL,
            "no-api",
            "No process serves the API.",
            "Start one: `keyrack serve`. The end of its log says why.",
        )
    if backlog.unattended is not None:
        yield Finding(
            Severity.CRITICAL, "no-worker",
            f"No worker runs anywhere, and work has waited for {duration(backlog.unattended)}.",
            "Start one: `keyrack work`, or `keyrack serve` without --no-worker.",
        )  # fmt: skip
    elif not backlog.living("work"):
        yield Finding(
            Severity.WARNING, "no-worker-yet", "No worker runs anywhere; nothing has waited for long yet.",
            "Start one: `keyrack work`, or `keyrack serve` without --no-worker.",
        )  # fmt: skip
    elif backlog.operations_age > thresholds.OPERATION_AGE:
        yield Finding(
            Severity.CRITICAL, "operations-old",
            f"Assignments have waited for {duration(backlog.operations_age)}, though workers run.",
            "The workers' log says what keeps them: a slow database, a customer that is held, too many at once.",
        )  # fmt: skip
    if backlog.deliveries_age > thresholds.DELIVERY_AGE:
        hosts = ", ".join(dict.fromkeys(webhook.host for webhook in picture.failing)) or "see `keyrack webhook list`"
        yield Finding(
            Severity.WARNING, "deliveries-old", f"A delivery has waited for {duration(backlog.deliveries_age)}.",
            f"Mostly a receiver that fails: {hosts}. It is tried on; tell who runs it.",
        )  # fmt: skip
    if backlog.changes_age > thresholds.CHANGE_AGE:
        blocker = f" It waits for {backlog.writers[0]}." if backlog.writers else ""
        yield Finding(
            Severity.WARNING, "changes-late",
            f"A change has waited for its number in the log for {duration(backlog.changes_age)}.{blocker}",
            "End that transaction (`pg_terminate_backend`, `rollback prepared`)." if blocker
            else "The workers' log says why: none runs, or the database is slow.",
        )  # fmt: skip
    if backlog.refused:
        yield Finding(
            Severity.CRITICAL, "log-refused",
            f"{_count(backlog.refused, 'log of changes is', 'logs of changes are')} not what was signed of it before.",
            "Somebody has written in the database past Keyrack. `keyrack housekeeping list` names the log; keep the "
            "database as it is, and compare it with published checkpoints: `keyrack audit verify`.",
        )  # fmt: skip
    if picture.given_up:
        yield Finding(
            Severity.WARNING,
            "deliveries-dead",
            f"{_count(picture.given_up, 'delivery was', 'deliveries were')} given up within an hour.",
            "Their customers miss outcomes. When the receiver is well, `keyrack webhook replay`.",
        )
    if late := [step.name for step in backlog.housekeeping if step.late]:
        shown = ", ".join(late[:3]) + (f" and {len(late) - 3} more" if len(late) > 3 else "")
        yield Finding(
            Severity.WARNING, "housekeeping-late", f"Housekeeping is late: {shown}.",
            "`keyrack housekeeping list` says why.",
        )  # fmt: skip


def _of_server(backlog: Backlog) -> Iterator[Finding]:
    used = sum(backlog.sessions.values())
    if used > thresholds.CONNECTIONS_USED * backlog.most_sessions:
        yield Finding(
            Severity.WARNING, "connections", f"{used} of the server's {backlog.most_sessions} connections are taken.",
            "Raise its max_connections, or lower KEYRACK_POOL_SIZE; `keyrack doctor` counts what is needed.",
        )  # fmt: skip
    for standby in backlog.standbys:
        if standby.seconds is not None and standby.seconds > thresholds.REPLICA_LAG:
            yield Finding(
                Severity.WARNING, "replica-lag", f"The replica {standby.name} is {duration(standby.seconds)} behind.",
                "Look at its disk and its log, and for a long query on it.",
            )  # fmt: skip
    if backlog.archive.late:
        age = backlog.archive.age
        since = "fails" if age is None else f"has stood still for {duration(age)}"
        yield Finding(
            Severity.WARNING, "archive-late", f"The archiving of the database's log {since}.",
            "What is not archived fills the database's disk: look at the archive's disk and the database's log.",
        )  # fmt: skip


def _of_machine(picture: StatusSnapshot) -> Iterator[Finding]:
    if picture.disk is not None and (free := picture.disk.free / picture.disk.bytes) < thresholds.DISK_LOW:
        level = Severity.CRITICAL if free < thresholds.DISK_FULL else Severity.WARNING
        yield Finding(
            level, "disk", f"The disk of {picture.disk.path} has {free:.1%} left.",
            "Make room or a larger disk; when it is full, Keyrack takes no writes until there is room again.",
        )  # fmt: skip
    if (backups := picture.backups) is None:
        return
    if backups.wrong is not None:
        yield Finding(Severity.WARNING, "backups", backups.wrong, "Look at the directory of the backups.")
    elif backups.newest is None:
        yield Finding(Severity.WARNING, "backups", "There is no full backup.", "`keyrack backup create`, every night.")
    elif (age := (datetime.now(UTC) - backups.newest).total_seconds()) > thresholds.BACKUP_AGE:
        yield Finding(
            Severity.WARNING, "backups", f"The last full backup was made {duration(age)} ago.",
            "`keyrack backup create`, every night.",
        )  # fmt: skip


def _of_certificates(picture: StatusSnapshot) -> Iterator[Finding]:
    for certificate in picture.certificates:
        if certificate.wrong is not None:
            yield Finding(
                Severity.WARNING,
                "certificate",
                f"{certificate.host}: {certificate.wrong}",
                "Tell who runs the webhook's receiver.",
            )
        elif certificate.days is not None and certificate.days < thresholds.CERTIFICATE_DAYS:
            yield Finding(
                Severity.WARNING,
                "certificate",
                f"The certificate of {certificate.host} ends in {max(0, int(certificate.days))} days.",
                "Tell who runs the webhook's receiver.",
            )  # fmt: skip


def _count(number: int, singular: str, many: str) -> str:
    return f"{number:,} {singular if number == 1 else many}"
