"""Settings of workers, webhooks and retention."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings


class Work(BaseSettings):
    """Settings of workers, webhooks and retention."""

    section: ClassVar[str] = "work"
    title: ClassVar[str] = "Workers, webhooks and retention"

    worker_concurrency: int = Field(
        default=4,
        ge=1,
        le=200,
        description="Maximum number of transactions in which one worker applies operations at the same time. Each "
        "locks its customers.",
    )
    worker_poll: float = Field(
        default=2.0,
        gt=0,
        description="Interval at which an idle worker polls for work without a notification (seconds).",
    )
    sequencer_poll_seconds: float = Field(
        default=0.1,
        gt=0,
        le=60,
        description="Interval at which an idle worker polls for changes without a sequence number (seconds).",
    )
    sequencer_batch_rows: int = Field(
        default=1_000,
        ge=1,
        le=9_999,  # all have the same time, and a replay from a time skips fewer than 10,000
        description="Maximum number of changes, of all customers together, that get their sequence numbers in one "
        "transaction.",
    )
    changelog_retention_days: Literal[100, 400, 800, 3660] = Field(
        default=400,
        description="Retention of the change logs of customers and of the installation (days): 100, 400, 800 or 3660. "
        "A customer may have one of these values of its own.",
    )
    lock_timeout_seconds: float = Field(
        default=2.0,
        gt=0,
        description="Maximum wait of a request for locked rows (seconds), for example while another request installs a"
        " box for the same customer. After it, the request gets 503.",
    )
    customer_lock_max_waiting: int = Field(
        default=2,
        ge=0,
        le=100,
        description="Maximum number of requests that wait to change a customer's boxes, services, users or cars, in "
        "each process. Above it, requests get 503.",
    )
    flush_max_operations: int = Field(
        default=2_000,
        ge=1,
        description="Maximum number of pending operations that are applied before a customer's boxes, services, users "
        "or cars change. Above it, the request gets 503.",
    )
    flush_timeout_seconds: float = Field(
        default=1.0,
        gt=0,
        description="Maximum time to apply pending operations before a customer's boxes, services, users or cars "
        "change (seconds). After it, the request gets 503.",
    )
    webhook_limit: int = Field(
        default=50,
        ge=1,
        description="Maximum number of webhooks of one customer. Above it, a new one gets 409. Each outcome is stored "
        "once for each webhook.",
    )
    webhook_max_pending: int = Field(
        default=100_000,
        ge=1,
        description="Maximum number of pending deliveries of one webhook. Above it, the webhook is disabled.",
    )
    webhook_allowed_networks: str = Field(
        default="",
        description="Networks, comma-separated, that webhooks may reach although they are not public, for example "
        "`10.0.0.0/8`.",
    )
    webhook_denied_networks: str = Field(
        default="",
        description="Networks, comma-separated, that webhooks must never reach. It takes precedence over all other "
        "rules. Add the public address of this machine if none of its interfaces has it.",
    )
    webhook_timeout: float = Field(default=15.0, gt=0, description="Timeout of one delivery attempt (seconds).")
    webhook_retry_first: float = Field(
        default=5.0,
        gt=0,
        description="Maximum delay before the first retry of a delivery (seconds). It doubles with each failure, up to"
        " `KEYRACK_WEBHOOK_RETRY_MAX`. The actual delay is a random part of it.",
    )
    webhook_retry_max: float = Field(
        default=21_600.0, gt=0, description="Maximum delay between two attempts (seconds)."
    )
    webhook_retry_for: float = Field(
        default=259_200.0,
        ge=0,
        description="Time for which a delivery is retried (seconds). After it, the delivery is marked dead.",
    )
    webhook_concurrency: int = Field(
        default=400,
        ge=1,
        le=10_000,
        description="Maximum number of deliveries that one worker sends at the same time. One customer uses at most as"
        " many as it leaves free for others, so at most half.",
    )
    webhook_per_endpoint: int = Field(
        default=20,
        ge=1,
        le=1_000,
        description="Maximum number of deliveries that one worker sends to one webhook at the same time. It is lower "
        "for a webhook that takes longer than a second to respond.",
    )
    webhook_secret_overlap_hours: int = Field(
        default=24,
        ge=0,
        le=720,
        description="Time for which the old signing secret also signs after a rotation (hours).",
    )
    webhook_replay_rate: int = Field(
        default=60,
        ge=1,
        description="Rate limit of calls of `test` and `replay` of one customer (per minute). Above it, requests get "
        "429.",
    )
    webhook_replay_burst: int = Field(
        default=30, ge=1, description="Burst of calls of `test` and `replay` of one customer."
    )
    delivery_retention_days: int = Field(
        default=30, ge=1, le=3_650, description="Retention of the log of webhook deliveries (days)."
    )
    operation_retention_days: int = Field(
        default=90, ge=1, le=3_650, description="Retention of finished operations (days)."
    )
    idempotency_hours: int = Field(
        default=24, ge=1, le=720, description="Retention of responses to requests with an `Idempotency-Key` (hours)."
    )
    orphaned_person_retention_days: int = Field(
        default=30,
        ge=1,
        le=3_650,
        description="Retention of a person who belongs to no customer (days). Meanwhile the e-mail address alone finds"
        " the person. Then the person is erased.",
    )
    housekeeping_seconds: float = Field(
        default=20.0,
        gt=0,
        description="Maximum duration of one run of a housekeeping task (seconds). Later runs do what is left.",
    )
    housekeeping_rows: int = Field(
        default=5_000, ge=50, description="Maximum number of rows that one statement of housekeeping changes."
    )

    @field_validator("changelog_retention_days", mode="before")
    @classmethod
    def _parse_days(cls, value: object) -> object:
        """Convert text, because pydantic accepts no text for a literal number."""
        return int(value) if isinstance(value, str) and value.isdecimal() else value
