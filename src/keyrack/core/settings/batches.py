"""Settings of batches."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings


class Batches(BaseSettings):
    """Settings of batches: several creations, changes and deletions in one request."""

    section: ClassVar[str] = "batches"
    title: ClassVar[str] = "Batches"

    batch_items: int = Field(
        default=1_000,
        ge=1,
        le=10_000,
        description="Maximum number of items in one `POST /batch`. Above it, the request gets 400.",
    )
    batch_bytes: int = Field(
        default=1_000_000,
        ge=1_000,
        description="Size limit of the body of a `POST /batch` (bytes). A body that reaches it gets 413.",
    )
    batch_seconds: float = Field(
        default=10.0,
        gt=0,
        description="Maximum duration of a batch in the database (seconds). Its password hashes have the same time "
        "before. After it, the batch is rolled back and gets 503.",
    )
    batch_passwords: int = Field(
        default=50,
        ge=0,
        description="Maximum number of users of the type `Normal` that one batch creates. Above it, the request gets "
        "400.",
    )
    batch_conflicts: int = Field(
        default=10,
        ge=1,
        le=1_000,
        description="Maximum number of overlapping assignments that the result of one batch item lists.",
    )
    dry_run_rate: int = Field(
        default=20_000,
        ge=1,
        description="Rate limit of items in batches with `dryRun`, for one customer (per minute). Above it, requests "
        "get 429. Each batch counts as at least 20 items.",
    )
    dry_run_burst: int = Field(
        default=2_000,
        ge=1,
        description="Burst of items in batches with `dryRun`, for one customer. A batch is accepted if any quota is "
        "left; the excess is deducted from later quota.",
    )
