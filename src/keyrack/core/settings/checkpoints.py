"""Settings of checkpoints: signing key, interval, retention and copies."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings


class Checkpoints(BaseSettings):
    """Settings of checkpoints of the change log."""

    section: ClassVar[str] = "checkpoints"
    title: ClassVar[str] = "Checkpoints"

    checkpoint_key_file: Path | None = Field(
        default=None,
        description="File with the key that signs checkpoints of the change log: 32 bytes in base64, the same for "
        "every worker. During a rotation, it has several keys, one per line. `keyrack audit keys` creates it. Default:"
        " `checkpoint.key` in the state directory, which Keyrack creates for the embedded database. Without a key "
        "there are no checkpoints, and `keyrack status` reports it.",
    )
    checkpoint_seconds: float = Field(
        default=60.0,
        ge=1,
        le=86_400,
        description="Interval between two checkpoints of a log that has new changes (seconds).",
    )
    checkpoint_days: int = Field(
        default=7,
        ge=1,
        le=3_650,
        description="Time for which the database keeps every checkpoint (days). It keeps the last checkpoint of each "
        "older day.",
    )
    checkpoint_directory: Path | None = Field(
        default=None,
        description="Directory, an absolute path, to which workers copy each checkpoint as a file. Use storage on "
        "another machine that administrators of the database cannot change "
        "([checkpoints.md](checkpoints.md#publish-copies)).",
    )

    @field_validator("checkpoint_directory")
    @classmethod
    def _is_whole(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_absolute():
            raise ValueError(f"'{value}' is not an absolute path")
        return value
