"""In charge of settings of batches: many creations, changes and ends in one call."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from pydantic_settings import BaseSettings


class Batches(BaseSettings):
    """Settings of batches: many creations, changes and ends in one call."""

    section: ClassVar[str] = "batches"

    batch_items: int = Field(default=1_000, ge=1, le=10_000, description="Items of a `POST /batch`, at most: 400.")
    batch_bytes: int = Field(
        default=1_000_000, ge=1_000, description="Bytes from which on the body of a `POST /batch` is refused: 413."
    )
    batch_seconds: float = Field(
        default=10.0,
        gt=0,
        description="Seconds that a batch may take in the database, and before that for its passwords: then it is "
        "undone, 503.",
    )
    batch_passwords: int = Field(
        default=50, ge=0, description="Users of the type `Normal` that one batch creates, at most: 400."
    )
    batch_conflicts: int = Field(
        default=10, ge=1, le=1_000, description="Overlapping assignments that an item of a batch is told, at most."
    )
    dry_run_rate: int = Field(
        default=20_000,
        ge=1,
        description="Items of batches with `dryRun` a minute that each customer may try over time; such a batch counts "
        "as 20 items at least.",
    )
    dry_run_burst: int = Field(
        default=2_000,
        ge=1,
        description="Such items that a customer may try at once. A batch may go beyond, if one is left: what it takes "
        "beyond that is paid before the next.",
    )
