"""The findings of `keyrack status`: severity, problem and remedy.

Thresholds are those of the alerts: in `thresholds`, and in the modules that collect a value.
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
    """The severity of a finding, as the exit status that monitoring programs expect."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """A result of a check: a code for programs, and a text and a remedy for people."""

    level: Severity
    code: str
    text: str
    action: str


def duration(seconds: float) -> str:
    """Format a duration in its one or two largest units.

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
    """The highest severity."""
    return max((finding.level for finding in findings), default=Severity.OK)


def evaluate(picture: StatusSnapshot) -> list[Finding]:
    """The findings, the most severe first."""
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
            f"No Keyrack process uses the embedded database in {picture.database}.",
            "Start it with `keyrack serve`. If it should run, the end of its log shows why it stopped.",
        )
    if picture.standby:
        yield Finding(
            Severity.CRITICAL, "database-read-only", "The database server is a standby and accepts no writes.",
            "Promote it, or name the primary in KEYRACK_DATABASE_URL. The address may list several hosts.",
        )  # fmt: skip
    if picture.schema is None:
        return
    head = schema_version.head()
    at = f"The schema is at revision {picture.schema.revision}, and Keyrack {__version__} expects {head}."
    match picture.schema.state:
        case schema_version.SchemaState.EMPTY if picture.schema.mend_search_path is not None:
            yield Finding(
                Severity.CRITICAL, "schema-search-path", schema_version.OFF_SEARCH_PATH,
                f"Run `{picture.schema.mend_search_path}` in the database. Then restart Keyrack.",
            )  # fmt: skip
        case schema_version.SchemaState.EMPTY:
            yield Finding(Severity.CRITICAL, "schema-empty", "The database is empty.", "Run `keyrack migrate`.")
        case schema_version.SchemaState.OLDER:
            yield Finding(
                Severity.CRITICAL,
                "schema-older",
                f"{at} Values of missing tables are not shown.",
                "Run `keyrack migrate --plan` to see the pending migrations. Then follow docs/upgrading.md.",
            )
        case schema_version.SchemaState.TOO_NEW:
            yield Finding(
                Severity.CRITICAL,
                "schema-too-new",
                at,
                "Start the newer release. This one does not work with that schema.",
            )
        case schema_version.SchemaState.NEWER:
            yield Finding(
                Severity.WARNING, "schema-newer", at, "Upgrade all nodes to the newer release (docs/upgrading.md).",
            )  # fmt: skip
        case schema_version.SchemaState.CURRENT:
            pass


def _of_work(picture: StatusSnapshot, backlog: Backlog) -> Iterator[Finding]:
    if not backlog.living("serve"):
        yield Finding(
            Severity.CRITICAL,
            "no-api",
            "No process serves the API.",
            "Start one with `keyrack serve`. The end of its log shows why it stopped.",
        )
    if backlog.unattended is not None:
        yield Finding(
            Severity.CRITICAL, "no-worker",
            f"No worker runs, and work has waited for {duration(backlog.unattended)}.",
            "Start one with `keyrack work`, or with `keyrack serve` without --no-worker.",
        )  # fmt: skip
    elif not backlog.living("work"):
        yield Finding(
            Severity.WARNING, "no-worker-yet", "No worker runs. No work has waited for a minute yet.",
            "Start one with `keyrack work`, or with `keyrack serve` without --no-worker.",
        )  # fmt: skip
    elif backlog.operations_age > thresholds.OPERATION_AGE:
        yield Finding(
            Severity.CRITICAL, "operations-old",
            f"Assignments have waited for {duration(backlog.operations_age)}, though workers run.",
            "Read the workers' log for the cause: a slow database, a locked customer, or too many operations.",
        )  # fmt: skip
    if backlog.deliveries_age > thresholds.DELIVERY_AGE:
        hosts = ", ".join(dict.fromkeys(webhook.host for webhook in picture.failing))
        yield Finding(
            Severity.WARNING, "deliveries-old", f"A delivery has waited for {duration(backlog.deliveries_age)}.",
            f"Inform the operator of the failing receiver: {hosts}. Keyrack keeps retrying." if hosts
            else "Find the failing receiver with `keyrack webhook list`. Inform its operator; Keyrack keeps retrying.",
        )  # fmt: skip
    if backlog.pulled_age > thresholds.DELIVERY_AGE:
        yield Finding(
            Severity.WARNING, "messages-not-pulled",
            f"A message of a pull webhook has waited for {duration(backlog.pulled_age)}.",
            "Inform the owner of the client that should fetch it. `keyrack webhook list` shows the webhook.",
        )  # fmt: skip
    if backlog.changes_age > thresholds.CHANGE_AGE:
        blocker = f" It waits for {backlog.writers[0]}." if backlog.writers else ""
        yield Finding(
            Severity.WARNING, "changes-late",
            f"A change has waited for its sequence number for {duration(backlog.changes_age)}.{blocker}",
            "End that transaction with `pg_terminate_backend` or `rollback prepared`." if blocker
            else "Read the workers' log for the cause: no worker runs, or the database is slow.",
        )  # fmt: skip
    if backlog.persons_age > thresholds.PERSON_CHANGE_AGE:
        yield Finding(
            Severity.WARNING, "persons-undelivered",
            f"Another cell has not got a change or an erasure of a person for {duration(backlog.persons_age)}.",
            "Run `keyrack doctor` to see the cell and the reason.",
        )  # fmt: skip
    if backlog.refused:
        yield Finding(
            Severity.CRITICAL, "log-refused",
            f"{_count(backlog.refused, 'change log does', 'change logs do')} not match a signed checkpoint.",
            "Assume that another program has written to the database. Find the log with `keyrack housekeeping list`, "
            "preserve the database, and compare it with published checkpoints (`keyrack audit verify`).",
        )  # fmt: skip
    if picture.given_up:
        yield Finding(
            Severity.WARNING,
            "deliveries-dead",
            f"{_count(picture.given_up, 'delivery was', 'deliveries were')} marked dead within the last hour.",
            "Run `keyrack webhook replay` when the receiver works again, because customers have missed outcomes.",
        )
    if late := [step.name for step in backlog.housekeeping if step.late]:
        shown = ", ".join(late[:3]) + (f" and {len(late) - 3} more" if len(late) > 3 else "")
        yield Finding(
            Severity.WARNING, "housekeeping-late", f"Housekeeping is late: {shown}.",
            "Run `keyrack housekeeping list` to see the reason.",
        )  # fmt: skip


def _of_server(backlog: Backlog) -> Iterator[Finding]:
    used = sum(backlog.sessions.values())
    if used > thresholds.CONNECTIONS_USED * backlog.most_sessions:
        yield Finding(
            Severity.WARNING, "connections", f"{used} of the server's {backlog.most_sessions} connections are in use.",
            "Raise its max_connections, or lower KEYRACK_POOL_SIZE. `keyrack doctor` shows how many are needed.",
        )  # fmt: skip
    for standby in backlog.standbys:
        if standby.seconds is not None and standby.seconds > thresholds.REPLICA_LAG:
            yield Finding(
                Severity.WARNING, "replica-lag", f"The replica {standby.name} lags by {duration(standby.seconds)}.",
                "Check its disk, its log and long queries on it.",
            )  # fmt: skip
    if backlog.archive.late:
        age = backlog.archive.age
        text = (
            "The archiving of the write-ahead log fails." if age is None
            else f"The write-ahead log has not been archived for {duration(age)}."
        )  # fmt: skip
        yield Finding(
            Severity.WARNING, "archive-late", text,
            "Check the archive's disk and the database's log, before unarchived segments fill the database's disk.",
        )  # fmt: skip


def _of_machine(picture: StatusSnapshot) -> Iterator[Finding]:
    if picture.disk is not None and (free := picture.disk.free / picture.disk.bytes) < thresholds.DISK_LOW:
        level = Severity.CRITICAL if free < thresholds.DISK_FULL else Severity.WARNING
        yield Finding(
            level, "disk", f"Only {free:.1%} of the disk of {picture.disk.path} is free.",
            "Free space, or use a larger disk. Keyrack accepts no writes while the disk is full.",
        )  # fmt: skip
    if (backups := picture.backups) is None:
        return
    if backups.wrong is not None:
        yield Finding(Severity.WARNING, "backups", backups.wrong, "Check the backup directory.")
    elif backups.newest is None:
        yield Finding(
            Severity.WARNING, "backups", "There is no full backup.", "Run `keyrack backup create` every night."
        )
    elif (age := (datetime.now(UTC) - backups.newest).total_seconds()) > thresholds.BACKUP_AGE:
        yield Finding(
            Severity.WARNING, "backups", f"The last full backup is {duration(age)} old.",
            "Run `keyrack backup create` every night.",
        )  # fmt: skip


def _of_certificates(picture: StatusSnapshot) -> Iterator[Finding]:
    for certificate in picture.certificates:
        if certificate.wrong is not None:
            yield Finding(
                Severity.WARNING,
                "certificate",
                f"{certificate.host}: {certificate.wrong}",
                "Inform the operator of the webhook's receiver.",
            )
        elif certificate.days is not None and certificate.days < thresholds.CERTIFICATE_DAYS:
            yield Finding(
                Severity.WARNING,
                "certificate",
                f"The certificate of {certificate.host} expires in {max(0, int(certificate.days))} days.",
                "Inform the operator of the webhook's receiver.",
            )  # fmt: skip


def _count(number: int, singular: str, many: str) -> str:
    return f"{number:,} {singular if number == 1 else many}"
