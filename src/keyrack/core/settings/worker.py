"""In charge of settings of asynchronous work, webhooks and what is forgotten."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings


class Work(BaseSettings):
    """Settings of asynchronous work, webhooks and what is forgotten."""

    section: ClassVar[str] = "work"

    worker_concurrency: int = Field(
        default=4,
        ge=1,
        le=200,
        description="Transactions in which one worker applies operations at once; each holds its customers.",
    )
    worker_poll: float = Field(
        default=2.0, gt=0, description="Seconds after which an idle worker looks for work that nobody announced."
    )
    sequencer_poll_seconds: float = Field(
        default=0.1,
        gt=0,
        le=60,
        description="Seconds after which an idle worker looks for changes without a number that nobody announced.",
    )
    sequencer_batch_rows: int = Field(
        default=1_000,
        ge=1,
        le=9_999,  # they have one time, and a replay of a time goes on behind fewer than 10,000
        description="Changes that get their numbers in one transaction, at most: those of all customers together.",
    )
    changelog_retention_days: Literal[100, 400, 800, 3660] = Field(
        default=400,
        description="Days for which the log of changes is kept, and that of the installation: 100, 400, 800 or 3660. A "
        "customer may have its own number of these.",
    )
    lock_timeout_seconds: float = Field(
        default=2.0,
        gt=0,
        description="Seconds that a request waits for others that work on the same rows of the database, such as those "
        "that install a box for the same customer: 503.",
    )
    customer_lock_max_waiting: int = Field(
        default=2,
        ge=0,
        le=100,
        description="Requests that change what assignments stand on (boxes, services, users, cars) and may wait for "
        "their turn, in each process and for each customer: 503.",
    )
    flush_max_operations: int = Field(
        default=2_000,
        ge=1,
        description="Pending operations that such a request carries out first, at most: with more, 503.",
    )
    flush_timeout_seconds: float = Field(
        default=1.0, gt=0, description="Seconds that it spends on them, at most: then 503."
    )
    webhook_limit: int = Field(
        default=50, ge=1, description="Webhooks of one customer: each outcome is written once for each of them."
    )
    webhook_max_pending: int = Field(
        default=100_000,
        ge=1,
        description="Deliveries that may wait for one webhook: where changes would make them more, it is disabled.",
    )
    webhook_allowed_networks: str = Field(
        default="",
        description="Networks, comma-separated, that webhooks may reach although they are not public, "
        "such as `10.0.0.0/8`.",
    )
    webhook_denied_networks: str = Field(
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
    webhook_secret_overlap_hours: int = Field(
        default=24, ge=0, le=720, description="Hours for which the old signing secret signs too after a rotation."
    )
    webhook_replay_rate: int = Field(
        default=60, ge=1, description="Calls of `test` and `replay` a minute that each customer may send over time."
    )
    webhook_replay_burst: int = Field(
        default=30, ge=1, description="Calls of `test` and `replay` that a customer may send at once."
    )
    delivery_retention_days: int = Field(
        default=30, ge=1, le=3_650, description="Days for which the log of webhook deliveries is kept."
    )
    operation_retention_days: int = Field(
        default=90, ge=1, le=3_650, description="Days for which finished operations are kept."
    )
    idempotency_hours: int = Field(
        default=24, ge=1, le=720, description="Hours for which an answer to an `Idempotency-Key` is kept."
    )
    orphaned_person_retention_days: int = Field(
        default=30,
        ge=1,
        le=3_650,
        description="Days for which a person who is in no customer any more is kept, and found by the e-mail address "
        "alone: then the person is erased.",
    )
    housekeeping_seconds: float = Field(
        default=20.0,
        gt=0,
        description="Seconds that one step of housekeeping may take in a round; what is left is done in later rounds.",
    )
    housekeeping_rows: int = Field(
        default=5_000, ge=50, description="Rows that one statement of housekeeping changes, at most."
    )

    @field_validator("changelog_retention_days", mode="before")
    @classmethod
    def _parse_days(cls, value: object) -> object:
        """Convert text, because pydantic accepts no text for a literal number."""
        return int(value) if isinstance(value, str) and value.isdecimal() else value
